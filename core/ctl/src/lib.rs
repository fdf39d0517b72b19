//! Every control command once: name, arguments, help.

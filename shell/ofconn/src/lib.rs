//! OpenFlow connections: controllers, management and snoop sockets.

//! The call of a tool: its name and its arguments.

/// The name and the arguments of a tool.
pub struct Call {
    /// `argv[0]`, for messages about options.
    pub argv0: String,
    /// The tool's name in messages.
    pub name: String,
    /// Whether the tool was called by its Open vSwitch name.
    pub compat: bool,
    /// The arguments after the tool's name.
    pub args: Vec<String>,
}

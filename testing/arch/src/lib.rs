//! The laws of the workspace, as tests.

//! What callers of the API may do, and what is noted of it.

use clap::{Args, ValueEnum};

#[derive(Args, Debug, Clone)]
pub struct ApiSettings {
    /// Which requests to the API their workspace finds in its log
    #[arg(long, global = true, env = "POSTHORN_REQUEST_LOG", default_value = "writes")]
    pub request_log: RequestLogging,

    /// Requests a second that one API key or app may make of this process; 0: any number
    #[arg(long, global = true, env = "POSTHORN_KEY_RATE", default_value = "0", value_name = "COUNT")]
    pub key_rate: u32,

    /// Requests a second that one workspace may make of this process; 0: any number
    #[arg(long, global = true, env = "POSTHORN_WORKSPACE_RATE", default_value = "0", value_name = "COUNT")]
    pub workspace_rate: u32,
}

#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestLogging {
    /// All
    All,
    /// Those that change something; of those that hand in events and mails, which have lists of their own, the refused
    Writes,
    /// None
    Off,
}

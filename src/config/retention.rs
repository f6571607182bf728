//! How long what happened is kept.

use clap::Args;

/// Days after which something is deleted, little by little.
#[derive(Args, Debug, Clone)]
pub struct RetentionSettings {
    /// Days for which occurrences of events are kept, except those that runs may still need; 0: for good
    #[arg(long, global = true, env = "POSTHORN_OCCURRENCE_RETENTION", default_value = "0", value_name = "DAYS")]
    #[arg(value_parser = clap::value_parser!(u32).range(0..=36_500))]
    pub occurrence_retention: u32,

    /// Days for which runs of automations are kept after they ended; 0: for good
    #[arg(long, global = true, env = "POSTHORN_RUN_RETENTION", default_value = "0", value_name = "DAYS")]
    #[arg(value_parser = clap::value_parser!(u32).range(0..=36_500))]
    pub run_retention: u32,

    /// Days for which the log of API requests is kept
    #[arg(long, global = true, env = "POSTHORN_REQUEST_LOG_RETENTION", default_value = "30", value_name = "DAYS")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=36_500))]
    pub request_log_retention: u32,

    /// Days for which is kept who changed what
    #[arg(long, global = true, env = "POSTHORN_AUDIT_RETENTION", default_value = "365", value_name = "DAYS")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=36_500))]
    pub audit_retention: u32,
}

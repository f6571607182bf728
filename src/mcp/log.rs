//! The log that hosts get where they ask for it: what the API answered to calls of tools. It goes with the answer to
//! the call that it is about.

#![expect(deprecated, reason = "hosts of revisions before 2026-07-28 know no other log")]

use http::StatusCode;
use rmcp::model::{LoggingLevel, LoggingMessageNotificationParam, ProtocolVersion};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};
use serde_json::{Value, json};

use super::session::Asker;
use super::tool::ApiTool;

const LOGGER: &str = "posthorn.api";

/// Where a request says for itself what it wants to be told.
const OF_REQUEST: &str = "io.modelcontextprotocol/logLevel";

/// Whether a request is of a revision in which levels belong to sessions.
pub fn is_by_session(context: &RequestContext<RoleServer>) -> bool {
    context.protocol_version().is_none_or(|version| version.as_str() < ProtocolVersion::V_2026_07_28.as_str())
}

/// Sets what the session of a request wants to be told.
pub async fn set(context: &RequestContext<RoleServer>, level: LoggingLevel, now: i64) -> Result<(), ErrorData> {
    let kept = Asker::of(context)?.set_level(word(level), now).await;
    match kept {
        Ok(Some(())) => Ok(()),
        Ok(None) => Err(ErrorData::invalid_request(
            "A level is set for a session: `Mcp-Session-Id` names the one that `initialize` began.",
            None,
        )),
        Err(_) => Err(ErrorData::internal_error("The level could not be kept. Try again.", None)),
    }
}

/// The least severe that is told to whoever sent a request; `None` where nothing is.
pub async fn least(context: &RequestContext<RoleServer>) -> Result<Option<LoggingLevel>, ErrorData> {
    if let Some(wanted) = context.meta.get(OF_REQUEST) {
        let level = level(wanted);
        return level.map(Some).ok_or_else(|| ErrorData::invalid_params(unknown(wanted), None));
    }
    if !is_by_session(context) {
        return Ok(None);
    }
    // A call is not given up for its log.
    let kept = Asker::of(context)?.level().await.unwrap_or_default();
    Ok(kept.and_then(|word| level(&Value::String(word))))
}

/// Tells what the API answered to a call, where that is wanted.
pub async fn tell(
    context: &RequestContext<RoleServer>,
    least: Option<LoggingLevel>,
    tool: &ApiTool,
    status: Option<StatusCode>,
) {
    let level = severity(status);
    if least.is_none_or(|least| (level as u8) < least as u8) {
        return;
    }
    let data = json!({
        "tool": tool.told.name,
        "method": tool.method.as_str(),
        "path": tool.path,
        "status": status.map(|status| status.as_u16()),
    });
    let message = LoggingMessageNotificationParam::new(level, data).with_logger(LOGGER);
    if let Err(error) = context.peer.notify_logging_message(message).await {
        tracing::debug!(%error, "a host could not be told what became of a call");
    }
}

/// `None` where the arguments were refused before the API was asked.
fn severity(status: Option<StatusCode>) -> LoggingLevel {
    match status {
        Some(status) if status.is_success() => LoggingLevel::Info,
        Some(status) if status.is_server_error() => LoggingLevel::Error,
        _ => LoggingLevel::Warning,
    }
}

fn level(wanted: &Value) -> Option<LoggingLevel> {
    ALL.into_iter().find(|level| wanted.as_str() == Some(word(*level)))
}

/// What is said of a level that there is not.
pub fn unknown(wanted: &Value) -> String {
    format!("`{}` is no level. There are {}.", crate::text::shown(&wanted.to_string()), ALL.map(word).join(", "))
}

/// From the least severe.
const ALL: [LoggingLevel; 8] = [
    LoggingLevel::Debug,
    LoggingLevel::Info,
    LoggingLevel::Notice,
    LoggingLevel::Warning,
    LoggingLevel::Error,
    LoggingLevel::Critical,
    LoggingLevel::Alert,
    LoggingLevel::Emergency,
];

/// As the protocol calls it.
fn word(level: LoggingLevel) -> &'static str {
    match level {
        LoggingLevel::Debug => "debug",
        LoggingLevel::Info => "info",
        LoggingLevel::Notice => "notice",
        LoggingLevel::Warning => "warning",
        LoggingLevel::Error => "error",
        LoggingLevel::Critical => "critical",
        LoggingLevel::Alert => "alert",
        LoggingLevel::Emergency => "emergency",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_have_the_words_and_the_order_of_the_protocol() {
        for (place, one) in ALL.into_iter().enumerate() {
            assert_eq!(one as usize, place);
            assert_eq!(serde_json::to_value(one).expect("a word"), word(one));
            assert_eq!(level(&json!(word(one))), Some(one));
        }
        assert_eq!((level(&json!("INFO")), level(&json!(1))), (None, None));
        assert!(unknown(&json!("loud")).contains("emergency"));
    }

    #[test]
    fn what_went_wrong_is_more_severe() {
        assert_eq!(severity(Some(StatusCode::CREATED)), LoggingLevel::Info);
        assert_eq!(severity(Some(StatusCode::NOT_FOUND)), LoggingLevel::Warning);
        assert_eq!(severity(None), LoggingLevel::Warning);
        assert_eq!(severity(Some(StatusCode::SERVICE_UNAVAILABLE)), LoggingLevel::Error);
    }
}

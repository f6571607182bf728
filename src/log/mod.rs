//! The log: one line a request and a word on what goes wrong, on standard error.

mod sink;

use std::fmt::{self, Debug, Write};
use std::io;

use jiff::Timestamp;
use jiff::fmt::StdFmtWrite;
use jiff::fmt::temporal::DateTimePrinter;
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;

use crate::config::{Config, LogFormat};

/// Starts the log. It is written by a thread of its own, so that a slow terminal
/// does not slow the answers; what is left is written when the guard is dropped.
pub fn start(config: &Config) -> io::Result<sink::Guard> {
    let (sink, guard) = sink::start(io::stderr())?;
    let filter: Targets = config.log.parse().map_err(io::Error::other)?;
    let log = tracing_subscriber::registry().with(filter);
    let lines = tracing_subscriber::fmt::layer().with_writer(move || sink.clone());
    match config.log_format {
        LogFormat::Json => log.with(lines.json().flatten_event(true)).init(),
        LogFormat::Text if io::IsTerminal::is_terminal(&io::stderr()) => log.with(lines).init(),
        LogFormat::Text => log.with(lines.event_format(Line)).init(),
    }
    Ok(guard)
}

/// A line of text for a file or a pipe, as [`tracing_subscriber`] writes it,
/// without what only a terminal needs: every request gets one, so its price counts.
struct Line;

impl<S, N> FormatEvent<S, N> for Line
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, _: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        const TIME: DateTimePrinter = DateTimePrinter::new().precision(Some(6));
        let about = event.metadata();
        TIME.print_timestamp(&Timestamp::now(), StdFmtWrite(&mut writer)).map_err(|_| fmt::Error)?;
        writer.write_str(match *about.level() {
            tracing::Level::ERROR => " ERROR ",
            tracing::Level::WARN => "  WARN ",
            tracing::Level::INFO => "  INFO ",
            tracing::Level::DEBUG => " DEBUG ",
            tracing::Level::TRACE => " TRACE ",
        })?;
        writer.write_str(about.target())?;
        writer.write_char(':')?;
        let mut fields = Fields { writer, result: Ok(()) };
        event.record(&mut fields);
        fields.result?;
        fields.writer.write_char('\n')
    }
}

/// Writes fields as ` name=value`, and the message without its name.
struct Fields<'a> {
    writer: Writer<'a>,
    result: fmt::Result,
}

impl Fields<'_> {
    fn name(&mut self, field: &Field) -> fmt::Result {
        self.writer.write_char(' ')?;
        if field.name() == "message" {
            return Ok(());
        }
        self.writer.write_str(field.name())?;
        self.writer.write_char('=')
    }

    fn plain(&mut self, field: &Field, value: &str) -> fmt::Result {
        self.name(field)?;
        self.writer.write_char('"')?;
        self.writer.write_str(value)?;
        self.writer.write_char('"')
    }
}

impl Visit for Fields<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        let is_plain = value.bytes().all(|byte| matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\');
        if is_plain {
            self.result = self.result.and_then(|()| self.plain(field, value));
        } else {
            self.record_debug(field, &value);
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.result = self.result.and_then(|()| {
            self.name(field)?;
            write!(Escaped(&mut self.writer), "{value:?}")
        });
    }
}

/// Keeps a record on its line, and a terminal's commands out of whoever reads it.
struct Escaped<'a, 'w>(&'a mut Writer<'w>);

impl Write for Escaped<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if !text.contains(char::is_control) {
            return self.0.write_str(text);
        }
        text.chars().try_for_each(|char| match char.is_control() {
            true => write!(self.0, "{}", char.escape_default()),
            false => self.0.write_char(char),
        })
    }
}

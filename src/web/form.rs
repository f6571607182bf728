//! Forms that people send from our own pages.

use std::borrow::Cow;
use std::ops::{Deref, Range};
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{FromRef, FromRequest, Request};
use bytes::Bytes;
use http::HeaderMap;
use sha2::{Digest, Sha256};

use super::input::{self, LIGHT};
use super::layout::{Field, PageError};
use super::multipart::{self, FormFile, Sorted};
use super::query::Params;
use super::spool::Spool;
use crate::app::App;
use crate::auth;
use crate::error::Error;

/// Nothing that people type into our forms is larger.
const LIMIT: usize = 64 << 10;

/// What people write for mail is: encoded, it takes up to three times its own length.
const LIMIT_OF_SOURCE: usize = 2 << 20;

/// How long that may take to arrive.
const PATIENCE: Duration = Duration::from_secs(60);

/// The files of the largest mail, and what is written beside them.
const LIMIT_WITH_FILES: usize = (40 << 20) + LIMIT_OF_SOURCE;

/// How long files may take to arrive.
const PATIENCE_WITH_FILES: Duration = Duration::from_secs(300);

/// What is made of a form that is longer is held in memory by few at a time.
const LIGHT_FORM: usize = LIGHT / 4;

/// How many fields and files there may be; where files are wanted, the page says how many of them it takes.
const MOST_WITH_FILES: usize = 256;

/// A form of ours: read whole, and not sent by another site's page.
pub struct Form(Typed);

/// What was typed, as it came.
enum Typed {
    Encoded(Bytes),
    Parts(Vec<(String, String)>),
}

/// The same, with room for the source of a mail. It arrives on disk where it is large.
pub struct LongForm(Form);

impl Deref for LongForm {
    type Target = Form;

    fn deref(&self) -> &Form {
        &self.0
    }
}

/// The same, with files, which stay where the form arrived.
pub struct FileForm {
    typed: Form,
    pub files: Vec<FormFile>,
    pub body: Arc<Spool>,
}

impl Deref for FileForm {
    type Target = Form;

    fn deref(&self) -> &Form {
        &self.typed
    }
}

impl FileForm {
    /// What tells this form from another with other files, behind what is known of it already.
    pub async fn digest_files(&self, app: &App, mut digest: Sha256) -> Result<Sha256, Error> {
        let body = self.body.clone();
        let places: Vec<Range<usize>> = self.files.iter().map(|file| file.place.clone()).collect();
        let read = move || {
            for place in places {
                digest.update((place.len() as u64).to_be_bytes());
                for start in place.clone().step_by(LIGHT) {
                    digest.update(body.part(start..place.end.min(start + LIGHT))?);
                }
            }
            Ok(digest)
        };
        app.admission.build(read).await?
    }
}

impl<S: Send + Sync> FromRequest<S> for FileForm
where
    App: FromRef<S>,
{
    type Rejection = PageError;

    async fn from_request(request: Request, state: &S) -> Result<FileForm, PageError> {
        let app = &App::from_ref(state);
        let (headers, body) = receive(app, request, LIMIT_WITH_FILES, PATIENCE_WITH_FILES).await?;
        let is_light = body.len() <= LIGHT_FORM;
        let sort = move || multipart::Form::parse_up_to(&headers, body, MOST_WITH_FILES)?.sorted(LIMIT_OF_SOURCE);
        let sorted = if is_light { sort() } else { app.admission.build(sort).await? };
        let Sorted { typed, files, body } = sorted?;
        Ok(FileForm { typed: Form(Typed::Parts(typed)), files, body: Arc::new(body) })
    }
}

impl<S: Send + Sync> FromRequest<S> for LongForm
where
    App: FromRef<S>,
{
    type Rejection = PageError;

    async fn from_request(request: Request, state: &S) -> Result<LongForm, PageError> {
        let (_, body) = receive(&App::from_ref(state), request, LIMIT_OF_SOURCE, PATIENCE).await?;
        Ok(LongForm(Form(Typed::Encoded(body.part(0..body.len())?))))
    }
}

/// What a page of ours sends, spooled; where much is made of it, when it is its turn.
async fn receive(app: &App, request: Request, limit: usize, patience: Duration) -> Result<(HeaderMap, Spool), Error> {
    let (parts, body) = request.into_parts();
    auth::refuse_foreign(app, &parts.headers)?;
    let body = Spool::receive(app, body, limit, patience).await?;
    if body.len() > LIGHT_FORM {
        app.admission.admit().await?;
    }
    Ok((parts.headers, body))
}

impl<S: Send + Sync> FromRequest<S> for Form
where
    App: FromRef<S>,
{
    type Rejection = PageError;

    async fn from_request(request: Request, state: &S) -> Result<Form, PageError> {
        let (parts, body) = request.into_parts();
        auth::refuse_foreign(&App::from_ref(state), &parts.headers)?;
        Ok(Form(Typed::Encoded(input::read(&parts.headers, body, LIMIT).await?)))
    }
}

impl Form {
    /// A field as it was typed.
    pub fn field(&self, name: &str) -> Field {
        Field::of(self.text(name))
    }

    /// What was typed into a field; empty when it is missing.
    pub fn text(&self, name: &str) -> String {
        match &self.0 {
            Typed::Encoded(body) => Params::parse(body).text(name).map(Cow::into_owned).unwrap_or_default(),
            Typed::Parts(parts) => {
                let mut values = parts.iter().filter(|(sent, _)| sent == name).map(|(_, value)| value);
                // As there: what was sent twice is nothing.
                values.next().filter(|_| values.next().is_none()).cloned().unwrap_or_default()
            }
        }
    }

    /// The same, of a box for several lines: browsers end lines as mail does, sources rather end them with a line feed.
    pub fn lines(&self, name: &str) -> String {
        self.text(name).replace("\r\n", "\n")
    }

    /// The values of several fields, of which each may be sent several times; a long form is gone through once for all.
    pub fn all_of<const MANY: usize>(&self, names: [&str; MANY]) -> [Vec<String>; MANY] {
        match &self.0 {
            Typed::Encoded(body) => {
                let params = Params::parse(body);
                names.map(|name| params.all(name))
            }
            Typed::Parts(_) => names.map(|name| self.all(name)),
        }
    }

    /// The values of a field that may be sent several times, such as boxes that
    /// were ticked.
    pub fn all(&self, name: &str) -> Vec<String> {
        match &self.0 {
            Typed::Encoded(body) => Params::parse(body).all(name),
            Typed::Parts(parts) => {
                parts.iter().filter(|(sent, _)| sent == name).map(|(_, value)| value.clone()).collect()
            }
        }
    }
}

/// A source as a box for several lines shows it: browsers know one kind of line end.
pub fn in_box(source: &str) -> String {
    source.replace("\r\n", "\n").replace('\r', "\n")
}

/// A source as it came back from a box, with the line ends that it had. One that was not changed is as it was.
pub fn from_box(typed: &str, before: &str) -> String {
    if typed == in_box(before) {
        return before.to_owned();
    }
    let ends = before.matches('\n').count();
    match ends > 0 && before.matches("\r\n").count() == ends {
        true => typed.replace('\n', "\r\n"),
        false => typed.to_owned(),
    }
}

/// Puts a refusal beside the field of a form that it is about; what is about none of them comes back.
pub fn beside_field<'a>(
    refusal: &Error,
    fields: impl IntoIterator<Item = (&'static str, &'a mut Field)>,
) -> Option<String> {
    let (message, names) = match missing_choice(refusal) {
        Some((names, sentence)) => (sentence, names.iter().map(|name| (*name).to_owned()).collect()),
        None => (refusal.message().into_owned(), Vec::from_iter(field_of(refusal))),
    };
    match fields.into_iter().find(|(one, _)| names.iter().any(|name| name == one)) {
        Some((_, field)) => {
            field.error = Some(message);
            None
        }
        None => Some(message),
    }
}

/// What was chosen and is not there, or is another workspace's: its fields, and what a person is told.
pub fn missing_choice(error: &Error) -> Option<(&'static [&'static str], String)> {
    let Error::NotFound { message } = error else { return None };
    let (word, names): (&str, &[&str]) = match message.split_once(" not found.")?.0 {
        "Topic" => ("topic", &["topic_id", "topics"]),
        "Segment" => ("segment", &["segment_id", "segments"]),
        "Template" => ("template", &["template"]),
        _ => return None,
    };
    Some((names, format!("There is no such {word} here. It may have been deleted: choose another.")))
}

/// Which field an error is about, as the API calls it, if it names one. A domain is refused for the sender's address.
pub fn field_of(error: &Error) -> Option<String> {
    if matches!(error, Error::DomainRefused { .. }) {
        return Some("from".to_owned());
    }
    let message = error.message();
    let name = message.split('`').nth(1)?;
    Some(name.split(['.', '[']).next().unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_about_the_field_that_it_names_first() {
        let of = |message: &str| field_of(&Error::invalid(message));
        assert_eq!(of("The `variables[2].key` field must not be `x`.").as_deref(), Some("variables"));
        assert_eq!(of("Missing `html` field.").as_deref(), Some("html"));
        assert_eq!(of("Something else."), None);
    }

    #[test]
    fn what_was_chosen_and_is_not_there_is_told_beside_its_field() {
        let (mut from, mut topic) = (Field::default(), Field::default());
        let missing = Error::not_found("Topic not found. `GET /topics` lists those there are.");
        assert_eq!(beside_field(&missing, [("from", &mut from), ("topic_id", &mut topic)]), None);
        assert_eq!(
            (from.error, topic.error.is_some_and(|told| told.starts_with("There is no such topic"))),
            (None, true)
        );
        assert!(missing_choice(&Error::not_found("There is no such email here.")).is_none());
    }

    #[test]
    fn lines_end_as_they_do_in_sources() {
        let form = Form(Typed::Encoded(Bytes::from_static(b"a=x%0D%0Ay&b=z")));
        assert_eq!((form.lines("a").as_str(), form.lines("b").as_str()), ("x\ny", "z"));
    }

    #[test]
    fn what_was_typed_is_the_same_whichever_way_it_came() {
        let parts = [("a", "x"), ("b", "1"), ("b", "2")].map(|(name, value)| (name.to_owned(), value.to_owned()));
        for typed in [Typed::Encoded(Bytes::from_static(b"a=x&b=1&b=2")), Typed::Parts(parts.into())] {
            let form = Form(typed);
            assert_eq!((form.text("a"), form.text("b"), form.text("c")), ("x".into(), String::new(), String::new()));
            assert_eq!((form.all("b"), form.all("c").len()), (vec!["1".to_owned(), "2".to_owned()], 0));
        }
    }
}

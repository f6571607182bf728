//! Events in the dashboard.

use askama::Template;
use axum::Router;
use axum::routing::get;
use http::StatusCode;
use serde_json::{Map, Value};

use super::Events;
use super::as_code::defining;
use super::store::{self, Stored};
use crate::accounts::{Look, Member};
use crate::docs::Call;
use crate::id::EventId;
use crate::web::{self, Layout, Leaf, PageResult, Shell, Stamp};

/// How many keys of a schema a list shows.
const MOST_SHOWN: usize = 6;

pub fn router() -> Router<Events> {
    Router::new().route("/events", get(list))
}

#[derive(Template)]
#[template(path = "events/list.html")]
struct EventsPage {
    layout: Layout,
    shell: Shell,
    notice: Option<String>,
    may_manage: bool,
    events: Vec<EventRow>,
    /// How an event is defined, for the empty list.
    example: Call,
    newer: Option<String>,
    older: Option<String>,
}

struct EventRow {
    id: EventId,
    name: String,
    /// The newest definition of its name.
    in_force: bool,
    /// Nobody defined it: its first use did.
    by_use: bool,
    /// Name and type of the first few payload fields.
    fields: Vec<(String, String)>,
    /// How many fields are not shown.
    more: usize,
    created: Stamp,
}

async fn list(member: Member<Look>) -> PageResult {
    let page = member.page()?;
    let stored: Vec<(Stored, bool)> = member.query(store::page_in_force(member.workspace_id(), &page)).await?;
    let Leaf { items, newer, older } = page.leaf(stored, &member.address("/events"), |(event, _)| event.id);
    let now = member.app.clock.now();
    let content = EventsPage {
        layout: member.layout(),
        shell: member.shell("/events"),
        notice: member.notice("deleted", "The event is deleted."),
        may_manage: member.may_manage(),
        events: items.into_iter().map(|(event, in_force)| row(event, in_force, now)).collect(),
        example: defining(&member.app),
        newer,
        older,
    };
    Ok(web::page(StatusCode::OK, &content))
}

fn row(event: Stored, in_force: bool, now: i64) -> EventRow {
    let (fields, more) = fields(event.schema.as_deref());
    EventRow {
        id: event.id,
        name: event.name,
        in_force,
        by_use: event.defined_by_use,
        fields,
        more,
        created: Stamp::ago(event.created_at, now),
    }
}

/// The first keys of a schema with their types, and how many more there are.
fn fields(schema: Option<&str>) -> (Vec<(String, String)>, usize) {
    let schema: Map<String, Value> = schema.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    let more = schema.len().saturating_sub(MOST_SHOWN);
    let pair = |(key, kind): (String, Value)| (key, kind.as_str().unwrap_or_default().to_owned());
    (schema.into_iter().take(MOST_SHOWN).map(pair).collect(), more)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::db::DbError;
    use crate::testing::{self, NOW, Store};

    #[tokio::test]
    async fn the_page_marks_what_is_defined_by_use_and_what_is_replaced() {
        for store in Store::each().await {
            let app = store.open(&[], crate::clock::Clock::fixed(NOW)).await;
            let (_, cookie) = testing::owner(&app).await;
            let workspace = crate::accounts::only_workspace(&app.db, &app.clock).await.expect("one").expect("one").id;
            let define = async |name: &str| {
                let name = super::super::event::EventName::try_from(name.to_owned()).expect("a name");
                let insert = store::insert(workspace, app.clock.ordered_id(), &name, None, NOW);
                app.db.commit(insert).await.expect("a definition");
            };
            let marks = async || {
                let headers = [("cookie", cookie.as_str())];
                let page = testing::send(&app, "GET", "/dashboard/events", &headers, None).await.text();
                (page.matches("Defined by use").count(), page.matches("Older definition").count())
            };
            define("meant").await;
            assert_eq!(marks().await, (0, 0));
            let used = store::define_by_use(workspace, app.clock.ordered_id(), "maent", NOW);
            app.db.commit(used.clone()).await.expect("a definition");
            assert_eq!(marks().await, (1, 0));
            assert!(matches!(app.db.commit(used).await, Err(DbError::Unexpected { .. })), "it is there");
            define("maent").await;
            assert_eq!(marks().await, (1, 1));
            drop(app);
            store.discard().await;
        }
    }

    #[test]
    fn a_list_shows_the_first_keys_of_a_schema_and_counts_the_rest() {
        assert_eq!(fields(None), (vec![], 0));
        assert_eq!(fields(Some("{}")), (vec![], 0));
        assert_eq!(fields(Some(r#"{"total":"number"}"#)), (vec![("total".into(), "number".into())], 0));
        let wide: Map<String, Value> = (0..9).map(|key| (key.to_string(), "date".into())).collect();
        let (shown, more) = fields(Some(&Value::Object(wide).to_string()));
        assert_eq!((shown.len(), more), (MOST_SHOWN, 3));
    }
}

//! Contacts in the dashboard.

use std::collections::HashMap;

use askama::Template;
use axum::Router;
use axum::routing::get;
use http::StatusCode;

use super::shapes::Item;
use super::store;
use crate::accounts::{Look, Member};
use crate::app::App;
use crate::db::DbError;
use crate::error::Error;
use crate::id::ContactId;
use crate::segments;
use crate::web::{self, Layout, Leaf, PageResult, Shell, Stamp};

/// How many segments of a contact a list shows.
const MOST_SHOWN: usize = 6;

pub fn router() -> Router<App> {
    Router::new().route("/contacts", get(list))
}

#[derive(Template)]
#[template(path = "contacts/list.html")]
struct ContactsPage {
    layout: Layout,
    shell: Shell,
    contacts: Vec<ContactRow>,
    /// A command that adds a contact, for the empty list.
    example: String,
    newer: Option<String>,
    older: Option<String>,
}

struct ContactRow {
    email: String,
    name: String,
    unsubscribed: bool,
    /// Names of the first few segments.
    segments: Vec<String>,
    /// How many segments are not shown.
    more: usize,
    created: Stamp,
}

async fn list(member: Member<Look>) -> PageResult {
    let page = member.page()?;
    let rows = member.read(store::page(member.workspace_id(), &page)).await?;
    let contacts: Result<Vec<Item>, DbError> = rows.iter().map(Item::read).collect();
    let Leaf { items, newer, older } = page.leaf(contacts?, &member.address("/contacts"), |contact| contact.id);
    let mut names = segment_names(&member, &items).await?;
    let now = member.app.clock.now();
    let content = ContactsPage {
        layout: member.layout(),
        shell: member.shell("/contacts"),
        contacts: items
            .into_iter()
            .map(|contact| {
                let segments = names.remove(&contact.id).unwrap_or_default();
                row(contact, segments, now)
            })
            .collect(),
        example: example(&member.app),
        newer,
        older,
    };
    Ok(web::page(StatusCode::OK, &content))
}

/// The names of the segments of each contact on a page, which is newest first.
async fn segment_names(member: &Member<Look>, page: &[Item]) -> Result<HashMap<ContactId, Vec<String>>, Error> {
    let mut names: HashMap<ContactId, Vec<String>> = HashMap::new();
    let (Some(newest), Some(oldest)) = (page.first(), page.last()) else { return Ok(names) };
    let between = segments::names_between(member.workspace_id(), oldest.id, newest.id);
    for row in member.read(between).await? {
        names.entry(row.id(0)?).or_default().push(row.text(1)?);
    }
    Ok(names)
}

fn row(contact: Item, mut segments: Vec<String>, now: i64) -> ContactRow {
    let more = segments.len().saturating_sub(MOST_SHOWN);
    segments.truncate(MOST_SHOWN);
    let names = [contact.first_name, contact.last_name];
    let name = names.into_iter().flatten().filter(|name| !name.trim().is_empty()).collect::<Vec<_>>().join(" ");
    ContactRow {
        email: contact.email,
        name,
        unsubscribed: contact.unsubscribed,
        segments,
        more,
        created: Stamp::ago(contact.created_at.0, now),
    }
}

/// A command that adds a contact through the API of this server.
fn example(app: &App) -> String {
    let base = app.addresses.base.as_str();
    format!(
        "curl {base}/contacts \\\n  -H \"Authorization: Bearer $POSTHORN_KEY\" \\\n  \
         -H \"Content-Type: application/json\" \\\n  \
         -d '{{\"email\":\"ada@example.com\",\"first_name\":\"Ada\"}}'"
    )
}

#[cfg(test)]
mod tests {
    use serde_json::Map;

    use super::*;
    use crate::contacts::Contact;
    use crate::testing::{self, NOW, Store};

    fn contact(first: Option<&str>, last: Option<&str>) -> Contact {
        Contact {
            id: "01890000-0000-7000-8000-000000000000".parse().expect("an id"),
            email: "Ada@example.com".into(),
            first_name: first.map(str::to_owned),
            last_name: last.map(str::to_owned),
            unsubscribed: true,
            properties: Map::new(),
            sequence: 2,
            created_at: NOW,
            updated_at: None,
        }
    }

    #[test]
    fn a_list_shows_whole_names_and_the_first_segments() {
        let shown = |first, last| row(contact(first, last).into(), vec![], NOW).name;
        assert_eq!(shown(Some("Ada"), Some("Lovelace")), "Ada Lovelace");
        assert_eq!((shown(None, Some("L")), shown(Some(" "), None)), ("L".into(), String::new()));
        let many = row(contact(None, None).into(), vec!["x".into(); 9], NOW);
        assert_eq!((many.segments.len(), many.more), (MOST_SHOWN, 3));
    }

    #[tokio::test]
    async fn the_page_shows_contacts_with_their_segments_and_who_wants_no_mail() {
        for store in Store::each().await {
            let app = store.open(&[], crate::clock::Clock::fixed(NOW)).await;
            let (_, cookie) = testing::owner(&app).await;
            let headers = [("cookie", cookie.as_str())];
            let show = || testing::send(&app, "GET", "/dashboard/contacts", &headers, None);
            assert!(show().await.text().contains("No contacts here."));

            let workspace = crate::accounts::only_workspace(&app.db, &app.clock).await.expect("one").expect("one").id;
            let person = contact(Some("Ada"), None);
            let segment = "01890000-0000-7000-8000-000000000001".parse().expect("an id");
            let name = segments::SegmentName::try_from("<b>VIP</b>".to_owned()).expect("a name");
            let batch = crate::db::Batch::new()
                .and(super::store::insert(workspace, &person))
                .and(segments::insert(workspace, segment, &name, NOW))
                .and(segments::add(workspace, segment, person.id, NOW).expect(1));
            app.db.commit(batch).await.expect("stored");
            let page = show().await;
            assert_eq!(page.status, 200);
            for piece in ["Ada@example.com", "Unsubscribed", "&#60;b&#62;VIP&#60;/b&#62;", "aria-current=\"page\""] {
                assert!(page.text().contains(piece), "{piece}: {}", page.text());
            }
            drop(app);
            store.discard().await;
        }
    }
}

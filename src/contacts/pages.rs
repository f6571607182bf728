//! Contacts in the dashboard: the list, and who is looked for in it.

use std::collections::HashMap;

use askama::Template;
use axum::Router;
use axum::routing::{get, post};
use http::StatusCode;
use serde_json::json;

use super::person_form::{Choice, choices};
use super::search::{self, Total, Wanted};
use super::shapes::Item;
use super::{download, imports, page_edit, page_erase, page_one, property_pages, segment_pages, store};
use crate::accounts::{Look, Member};
use crate::app::App;
use crate::db::DbError;
use crate::docs::Call;
use crate::error::Error;
use crate::id::{ContactId, SegmentId, TopicId};
use crate::occurrences::Occurrences;
use crate::text::grouped;
use crate::web::{self, Layout, Leaf, PageResult, Shell, Stamp};
use crate::{segments, topics};

/// How many segments of a contact a list shows.
const MOST_SHOWN: usize = 6;

pub fn router() -> Router<Occurrences> {
    Router::new()
        .route("/contacts", get(list).post(page_edit::create))
        .route("/contacts/new", get(page_edit::blank))
        .route("/contacts/{contact}", get(page_one::show))
        .route("/contacts/{contact}/edit", post(page_edit::edit))
        .route("/contacts/{contact}/topics", post(page_edit::choose))
        .route("/contacts/{contact}/segments", post(page_edit::join))
        .route("/contacts/{contact}/segments/{segment_id}/remove", post(page_edit::leave))
        .route("/contacts/{contact}/delete", get(page_edit::ask).post(page_edit::delete))
        .route("/contacts/{contact}/erase", get(page_erase::ask).post(page_erase::erase))
        .route("/contacts/{contact}/export", get(page_erase::export))
        .route("/erasures/{id}", get(page_erase::show))
        .merge(segment_pages::router())
        .merge(property_pages::router())
        .merge(imports::pages())
        .route("/contacts.csv", get(download::contacts))
}

#[derive(Template)]
#[template(path = "contacts/list.html")]
struct ContactsPage {
    layout: Layout,
    shell: Shell,
    notice: Option<String>,
    may_manage: bool,
    /// How many there are, in a sentence.
    total: Option<String>,
    /// What was looked for.
    text: String,
    mail: String,
    segments: Vec<Choice<SegmentId>>,
    topics: Vec<Choice<TopicId>>,
    is_filtered: bool,
    /// Where the same contacts can be had as a file.
    export: String,
    contacts: Vec<ContactRow>,
    /// Where to go on, if the look ended early.
    stopped: Option<String>,
    window: String,
    /// How a contact is added, for the empty list.
    example: Call,
    newer: Option<String>,
    older: Option<String>,
}

struct ContactRow {
    href: String,
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
    let wanted = Wanted::of(&member);
    let workspace = member.workspace_id();
    let (leaf, stopped, fitting) = if wanted.is_everybody() {
        let page = member.page()?;
        let rows = member.read(store::page(workspace, &page)).await?;
        let contacts: Result<Vec<Item>, DbError> = rows.iter().map(Item::read).collect();
        (page.leaf(contacts?, &member.address("/contacts"), |contact| contact.id), None, None)
    } else {
        let found = wanted.find(&member).await?;
        let further = found.next.map(|id| member.address(&format!("/contacts?{}&after={id}", wanted.query())));
        let (older, stopped) = if found.has_stopped { (None, further) } else { (further, None) };
        (Leaf { items: found.items, newer: None, older }, stopped, found.total)
    };
    let Leaf { items, newer, older } = leaf;
    let mut names = segment_names(&member, &items).await?;
    let all_segments: Vec<(SegmentId, String, bool)> = member.query(segments::choices(workspace)).await?;
    let all_topics: Vec<(TopicId, String)> = member.query(topics::choices(workspace)).await?;
    let now = member.app.clock.now();
    let content = ContactsPage {
        layout: member.layout(),
        shell: member.shell("/contacts"),
        notice: member.notice("deleted", "The contact is deleted."),
        may_manage: member.may_manage(),
        total: total(&member, &wanted, fitting).await?,
        segments: choices(all_segments.into_iter().map(|(id, name, _)| (id, name)), wanted.segment_id.as_slice()),
        topics: choices(all_topics, wanted.topic_id.as_slice()),
        is_filtered: !wanted.is_everybody(),
        export: member.address(&match wanted.is_everybody() {
            true => "/contacts.csv".into(),
            false => format!("/contacts.csv?{}", wanted.query()),
        }),
        contacts: items
            .into_iter()
            .map(|contact| {
                let segments = names.remove(&contact.id).unwrap_or_default();
                let href = member.address(&format!("/contacts/{}", contact.id));
                row(contact, href, segments, now)
            })
            .collect(),
        stopped,
        window: grouped(search::WINDOW),
        example: example(&member.app),
        newer,
        older,
        text: wanted.text,
        mail: wanted.mail,
    };
    Ok(web::page(StatusCode::OK, &content))
}

/// How many there are: of a segment, of those who fit, or of all where that is soon counted.
async fn total(member: &Member<Look>, wanted: &Wanted, fitting: Option<Total>) -> Result<Option<String>, Error> {
    if let Some(id) = wanted.segment_id.filter(|_| wanted.is_whole_segment()) {
        let count = segments::detail(member, id).await?.contacts_count;
        return Ok(Some(format!("{} in this segment.", people(count))));
    }
    if !wanted.is_everybody() {
        return Ok(fitting.and_then(fitting_in_words));
    }
    let count: Option<i64> = member.query(search::count(member.workspace_id())).await?;
    Ok(match count.unwrap_or_default() {
        0 => None,
        count if count > search::WINDOW => Some(format!("There are more than {}.", grouped(search::WINDOW))),
        count => Some(format!("There {} {}.", if count == 1 { "is" } else { "are" }, grouped(count))),
    })
}

/// Where there are very many, not everybody is counted.
fn fitting_in_words(total: Total) -> Option<String> {
    Some(match (total.is_whole, total.count) {
        (_, 0) => return None,
        (true, 1) => "1 contact fits what is looked for.".into(),
        (true, count) => format!("{} contacts fit what is looked for.", grouped(count)),
        (false, 1) => "At least 1 contact fits what is looked for; older ones were not counted.".into(),
        (false, count) => {
            format!("At least {} contacts fit what is looked for; older ones were not counted.", grouped(count))
        }
    })
}

pub(super) fn people(count: i64) -> String {
    match count {
        1 => "1 contact is".into(),
        count => format!("{} contacts are", grouped(count)),
    }
}

/// The names of the segments of each contact on a page.
async fn segment_names(member: &Member<Look>, page: &[Item]) -> Result<HashMap<ContactId, Vec<String>>, Error> {
    let mut names: HashMap<ContactId, Vec<String>> = HashMap::new();
    // Those who were looked for may lie far apart.
    for contact in page {
        let of_one = segments::names_between(member.workspace_id(), contact.id, contact.id);
        for row in member.read(of_one).await? {
            names.entry(row.id(0)?).or_default().push(row.text(1)?);
        }
    }
    Ok(names)
}

fn row(contact: Item, href: String, mut segments: Vec<String>, now: i64) -> ContactRow {
    let more = segments.len().saturating_sub(MOST_SHOWN);
    segments.truncate(MOST_SHOWN);
    ContactRow {
        href,
        name: whole_name(contact.first_name, contact.last_name),
        email: contact.email,
        unsubscribed: contact.unsubscribed,
        segments,
        more,
        created: Stamp::ago(contact.created_at.0, now),
    }
}

pub(super) fn whole_name(first: Option<String>, last: Option<String>) -> String {
    [first, last].into_iter().flatten().filter(|name| !name.trim().is_empty()).collect::<Vec<_>>().join(" ")
}

/// A contact is added, as a program does it.
fn example(app: &App) -> Call {
    Call::to(app, "POST", "/contacts", Some(json!({"email": "ada@example.com", "first_name": "Ada"})))
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
        let shown = |first, last| row(contact(first, last).into(), String::new(), vec![], NOW).name;
        assert_eq!(shown(Some("Ada"), Some("Lovelace")), "Ada Lovelace");
        assert_eq!((shown(None, Some("L")), shown(Some(" "), None)), ("L".into(), String::new()));
        let many = row(contact(None, None).into(), String::new(), vec!["x".into(); 9], NOW);
        assert_eq!((many.segments.len(), many.more), (MOST_SHOWN, 3));
    }

    #[test]
    fn a_number_says_what_was_counted() {
        let said = |count, is_whole| fitting_in_words(Total { count, is_whole }).unwrap_or_default();
        assert_eq!((said(0, true), said(0, false)), (String::new(), String::new()), "the page says it below");
        assert_eq!(said(1, true), "1 contact fits what is looked for.");
        assert_eq!(said(1_200, true), "1,200 contacts fit what is looked for.");
        assert_eq!(said(5_020, false), "At least 5,020 contacts fit what is looked for; older ones were not counted.");
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

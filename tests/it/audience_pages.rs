//! Segments, topics, properties and imports in the dashboard.

use posthorn::contacts;
use serde_json::json;
use uuid::Uuid;

use crate::automation_pages::{owner, page};
use crate::form_filling::Filled;
use crate::harness::{Answer, TestApp, on_both};
use crate::people_pages::{contact, submit};

/// Hands in a file by the form on the page of imports.
async fn hand_in(app: &TestApp, cookie: &str, file: &str) -> Answer {
    let list = page(app, cookie, "/imports").await;
    let token = list
        .split("enctype=\"multipart/form-data\"")
        .nth(1)
        .and_then(|form| form.split("name=\"token\" value=\"").nth(1));
    let token = token.and_then(|rest| rest.split('"').next()).expect("a token");
    let body = format!(
        "--b\r\nContent-Disposition: form-data; name=\"token\"\r\n\r\n{token}\r\n\
         --b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.csv\"\r\n\r\n{file}\r\n--b--\r\n"
    );
    app.post("/dashboard/imports").header("cookie", cookie).body("multipart/form-data; boundary=b", body).send().await
}

async fn work_off(app: &TestApp) {
    let mut last = Uuid::nil().into();
    while contacts::import_round(app.app.occurrences(), &mut last).await.expect("a round") {}
}

async fn fill(app: &TestApp) {
    while contacts::judging_round(app.app.occurrences()).await.expect("a round") {}
}

on_both! {
    async fn a_segment_is_made_renamed_and_deleted(app: TestApp) {
        let key = app.full_key().await;
        let cookie = owner(&app).await;
        let list = page(&app, &cookie, "/segments").await;
        assert!(list.contains("No segments yet."));
        let refused = submit(&app, &cookie, &list, "/segments", &[("name", " ")]).await;
        assert!(refused.status == 422 && refused.text().contains("must be one line"), "{}", refused.text());
        let made = submit(&app, &cookie, &list, "/segments", &[("name", "<b>VIP</b>")]).await;
        assert_eq!(made.status, 303);
        let at = made.location().trim_start_matches("/dashboard").split('?').next().expect("a path").to_owned();
        let id = at.rsplit('/').next().expect("an id").to_owned();
        contact(&app, &key, json!({"email": "ada@example.com", "segments": [id]})).await;
        fill(&app).await;
        let one = page(&app, &cookie, &at).await;
        assert!(one.contains("&#60;b&#62;VIP") && one.contains("ada@example.com") && one.contains("<dd>1</dd>"), "{one}");
        let long = "x".repeat(256);
        let refused = submit(&app, &cookie, &one, "/rename", &[("name", &long)]).await;
        assert!(refused.status == 422 && refused.text().contains(&long));
        assert_eq!(submit(&app, &cookie, &one, "/rename", &[("name", "Friends")]).await.status, 303);
        assert!(page(&app, &cookie, "/segments").await.contains("Friends"));
        let ask = page(&app, &cookie, &format!("{at}/delete")).await;
        assert!(ask.contains("1 contact is in it."));
        assert_eq!(submit(&app, &cookie, &ask, "/delete", &[]).await.location(), "/dashboard/segments?deleted");
        assert_eq!(app.get(format!("/dashboard{at}")).header("cookie", &cookie).send().await.status, 404);
    }

    async fn rules_are_written_in_rows_counted_and_saved(app: TestApp) {
        let key = app.full_key().await;
        let cookie = owner(&app).await;
        app.post("/contact-properties").key(&key).json(json!({"key": "seats", "type": "number"})).send().await;
        contact(&app, &key, json!({"email": "ada@example.com", "properties": {"seats": 5}})).await;
        contact(&app, &key, json!({"email": "bob@example.com", "properties": {"seats": 1}})).await;
        contact(&app, &key, json!({"email": "cy@other.example", "properties": {"seats": 9}})).await;
        let blank = page(&app, &cookie, "/segments/new").await;
        assert!(blank.contains("Property seats"));
        let typed = [("name", "Big"), ("mode", "rows"), ("join", "all"), ("join0", "all"),
            ("field0", "contact.properties.seats"), ("name0", ""), ("operator0", "gte"), ("value0", "3"), ("within0", ""),
            ("field0", ""), ("name0", ""), ("operator0", "eq"), ("value0", ""), ("within0", ""),
            ("join1", "any"), ("field1", "contact.email"), ("name1", ""), ("operator1", "ends_with"), ("value1", "@example.com"), ("within1", "")];
        let with = |act: &'static str| typed.iter().copied().chain([("act", act)]).collect::<Vec<_>>();
        let tried = submit(&app, &cookie, &blank, "/segments/new", &with("preview")).await;
        assert_eq!(tried.status, 200, "{}", tried.text());
        for piece in ["1 contact fits these rules.", "ada@example.com", "value=\"Big\"", "value=\"3\"", "Nothing is saved yet."] {
            assert!(tried.text().contains(piece), "{piece}: {}", tried.text());
        }
        let saved = submit(&app, &cookie, &blank, "/segments/new", &with("save")).await;
        assert_eq!(saved.status, 303, "{}", saved.text());
        fill(&app).await;
        let at = saved.location().trim_start_matches("/dashboard").split('?').next().expect("a path").to_owned();
        let one = page(&app, &cookie, &at).await;
        assert!(one.contains("ada@example.com") && !one.contains("bob@example.com") && one.contains("Property seats is at least 3"), "{one}");
        let id = at.rsplit('/').next().expect("an id");
        let stored = app.get(format!("/segments/{id}")).key(&key).send().await.json();
        assert_eq!(stored["filter"]["rules"][0]["rules"][0]["value"], 3);

        let edit = page(&app, &cookie, &format!("{at}/rules")).await;
        let wrong = [("mode", "rows"), ("field0", "contact.properties.seats"), ("name0", ""), ("operator0", "gte"),
            ("value0", "many"), ("within0", ""), ("act", "save")];
        let refused = submit(&app, &cookie, &edit, "/rules", &wrong).await;
        assert!(refused.status == 422 && refused.text().contains("compares with a number") && refused.text().contains("value=\"many\""), "{}", refused.text());
        // What is wrong stands beside its row, and only there.
        let two = [("mode", "rows"), ("field0", "contact.email"), ("name0", ""), ("operator0", "eq"), ("value0", "a@b.example"), ("within0", ""),
            ("field0", "contact.properties.seats"), ("name0", ""), ("operator0", "gte"), ("value0", "many"), ("within0", ""),
            ("field1", "broadcasts."), ("name1", "01890000-0000-7000-8000-000000000000"), ("operator1", "eq"), ("value1", "sent"), ("within1", "")];
        for act in ["save", "preview"] {
            let refused = submit(&app, &cookie, &edit, "/rules", &[&two[..], &[("act", act)]].concat()).await.text();
            assert!(refused.contains("One rule cannot be used; beside it stands why."), "{refused}");
            let errors: Vec<&str> = refused.split("class=\"field-error\" id=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
            assert_eq!(errors, ["r0-1-error"]);
            assert!(refused.contains("aria-invalid=\"true\" aria-describedby=\"r0-1-error\""));
        }
        let unknown = [&two[..6], &two[11..], &[("act", "save")]].concat();
        let refused = submit(&app, &cookie, &edit, "/rules", &unknown).await.text();
        assert!(refused.contains("id=\"r1-0-error\"") && refused.contains("which is not there") && !refused.contains("r0-0-error"), "{refused}");
        let none = submit(&app, &cookie, &edit, "/rules", &[("mode", "rows"), ("act", "save")]).await;
        assert!(none.status == 422 && none.text().contains("There is no rule yet."));
        let broken = submit(&app, &cookie, &edit, "/rules", &[("mode", "json"), ("json", "{\"type\":"), ("act", "save")]).await;
        assert!(broken.status == 422 && broken.text().contains("not valid JSON") && broken.text().contains("{&#34;type&#34;:"), "{}", broken.text());
        let deep = json!({"type": "and", "rules": [{"type": "or", "rules": [{"type": "and", "rules": [
            {"type": "rule", "field": "contact.email", "operator": "contains", "value": "bob"}]}]}]}).to_string();
        let saved = submit(&app, &cookie, &edit, "/rules", &[("mode", "json"), ("json", &deep), ("act", "save")]).await;
        assert_eq!(saved.status, 303, "{}", saved.text());
        fill(&app).await;
        let one = page(&app, &cookie, &at).await;
        assert!(one.contains("bob@example.com"), "{one}");
        assert!(page(&app, &cookie, &format!("{at}/rules")).await.contains("value=\"json\" checked"));
        assert!(edit.contains(&format!("href=\"/dashboard{at}/rules/clear\"")), "{edit}");
        let question = page(&app, &cookie, &format!("{at}/rules/clear")).await;
        assert!(question.contains("Take the rules away?") && !page(&app, &cookie, &at).await.contains("by hand"), "{question}");
        let cleared = Filled::of(&question, "/rules").send(&app, &cookie).await;
        assert_eq!(cleared.status, 303, "{}", cleared.text());
        assert!(page(&app, &cookie, &at).await.contains("by hand"));
        app.assert_told(&["segment.created", "segment.changed", "segment.changed"]).await;
    }

    async fn a_filtered_list_is_counted_and_exported_as_it_is_filtered(app: TestApp) {
        let key = app.full_key().await;
        let cookie = owner(&app).await;
        let mut file = "email,first_name,unsubscribed\n".to_owned();
        for number in 0..5_100 {
            let name = if number % 5_000 == 7 { "Rare" } else { "Usual" };
            file += &format!("p{number}@many.example,{name},{}\n", number % 3 == 0);
        }
        let body = format!("--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.csv\"\r\nContent-Type: text/csv\r\n\r\n{file}\r\n--b--\r\n");
        let begun = app.post("/contacts/imports").key(&key).body("multipart/form-data; boundary=b", body).send().await;
        assert_eq!(begun.status, 201, "{}", begun.text());
        work_off(&app).await;
        let overview = page(&app, &cookie, "/").await;
        let said = |title: &str| overview.contains(&format!("<h2>{title}</h2><p>More than 5000 new contacts: too many to draw here</p>"));
        assert!(said("Contacts, last 24 hours") && said("Contacts, last 7 days"), "{overview}");
        let list = page(&app, &cookie, "/contacts?q=rare").await;
        assert!(list.contains("2 contacts fit what is looked for."), "{list}");
        let many = page(&app, &cookie, "/contacts?q=many.example").await;
        assert!(many.contains("At least 5,020 contacts fit what is looked for; older ones were not counted."), "{many}");
        assert!(many.contains("href=\"/dashboard/contacts.csv?q=many%2Eexample\""), "{many}");
        for (query, rows) in [("", 5_100), ("?q=rare", 2), ("?q=usual", 5_098), ("?q=&mail=unsubscribed", 1_700),
            ("?q=nobody", 0), ("?q=p5007&mail=subscribed", 0), ("?q=p5007&mail=unsubscribed", 1)] {
            let export = app.get(format!("/dashboard/contacts.csv{query}")).header("cookie", &cookie).send().await;
            assert_eq!((export.status, export.text().lines().count()), (200, rows + 1), "{query}");
        }
        let topic = json!({"name": "News", "default_subscription": "opt_out"});
        let topic = app.post("/topics").key(&key).json(topic).send().await.json()["id"].as_str().expect("an id").to_owned();
        let segment = app.post("/segments").key(&key).json(json!({"name": "Few"})).send().await.json()["id"].as_str().expect("an id").to_owned();
        for name in ["ada", "bob"] {
            let topics = if name == "ada" { json!([{"id": topic, "subscription": "opt_in"}]) } else { json!([]) };
            contact(&app, &key, json!({"email": format!("{name}@few.example"), "segments": [segment], "topics": topics})).await;
        }
        for (query, rows) in [(format!("?segment={segment}"), 2), (format!("?q=&topic={topic}"), 1),
            (format!("?q=ada&segment={segment}"), 1), (format!("?q=bob&segment={segment}&topic={topic}"), 0)] {
            let export = app.get(format!("/dashboard/contacts.csv{query}")).header("cookie", &cookie).send().await;
            assert_eq!((export.status, export.text().lines().count()), (200, rows + 1), "{query}");
        }
        for query in ["?segment=x", "?topic=x", "?mail=x"] {
            let refused = app.get(format!("/dashboard/contacts.csv{query}")).header("cookie", &cookie).send().await;
            assert!([404, 422].contains(&refused.status), "{query}: {}", refused.status);
        }
    }

    async fn topics_are_made_changed_and_deleted(app: TestApp) {
        let key = app.full_key().await;
        let cookie = owner(&app).await;
        let theirs = app.second_workspace_key().await;
        let list = page(&app, &cookie, "/topics").await;
        assert!(list.contains("No topics yet."));
        let long = "x".repeat(51);
        let refused = submit(&app, &cookie, &list, "/topics", &[("name", &long), ("description", "Kept")]).await;
        assert!(refused.status == 422 && refused.text().contains(&long) && refused.text().contains("Kept"), "{}", refused.text());
        let typed = [("name", "News"), ("description", "Once a month"), ("visibility", "public"), ("default_subscription", "opt_in")];
        assert_eq!(submit(&app, &cookie, &list, "/topics", &typed).await.status, 303);
        let stored = app.get("/topics").key(&key).send().await.json()["data"][0].clone();
        assert_eq!((&stored["name"], &stored["default_subscription"], &stored["visibility"]), (&json!("News"), &json!("opt_in"), &json!("public")));
        let at = format!("/topics/{}", stored["id"].as_str().expect("an id"));
        let one = page(&app, &cookie, &at).await;
        let saved = submit(&app, &cookie, &one, &at, &[("name", "Product news"), ("description", ""), ("visibility", "private")]).await;
        assert_eq!(saved.status, 303, "{}", saved.text());
        let changed = app.get(&at).key(&key).send().await.json();
        assert_eq!((&changed["name"], &changed["visibility"], changed.get("description")), (&json!("Product news"), &json!("private"), None));
        let ask = page(&app, &cookie, &format!("{at}/delete")).await;
        assert_eq!(submit(&app, &cookie, &ask, "/delete", &[]).await.status, 303);
        assert_eq!(app.get(format!("/dashboard{at}")).header("cookie", &cookie).send().await.status, 404);
        let other = app.post("/topics").key(&theirs).json(json!({"name": "X", "default_subscription": "opt_in"})).send().await;
        let other = other.json()["id"].as_str().expect("an id").to_owned();
        assert_eq!(app.get(format!("/dashboard/topics/{other}")).header("cookie", &cookie).send().await.status, 404);
    }

    async fn properties_are_declared_given_fallbacks_and_deleted(app: TestApp) {
        let key = app.full_key().await;
        let cookie = owner(&app).await;
        let list = page(&app, &cookie, "/properties").await;
        let refused = submit(&app, &cookie, &list, "/properties", &[("key", "a b"), ("type", "number"), ("fallback_value", "1")]).await;
        assert!(refused.status == 422 && refused.text().contains("value=\"a b\""), "{}", refused.text());
        let refused = submit(&app, &cookie, &list, "/properties", &[("key", "seats"), ("type", "number"), ("fallback_value", "many")]).await;
        assert!(refused.status == 422 && refused.text().contains("must be a number"), "{}", refused.text());
        let typed = [("key", "seats"), ("type", "number"), ("fallback_value", "1")];
        assert_eq!(submit(&app, &cookie, &list, "/properties", &typed).await.status, 303);
        let again = submit(&app, &cookie, &list, "/properties", &typed).await;
        assert!(again.status == 422 && again.text().contains("is declared already"));
        let stored = app.get("/contact-properties").key(&key).send().await.json()["data"][0].clone();
        assert_eq!(stored["fallback_value"], 1);
        let list = page(&app, &cookie, "/properties").await;
        let refused = submit(&app, &cookie, &list, "/fallback", &[("fallback_value", "x")]).await;
        assert!(refused.status == 422 && refused.text().contains("must be a number"));
        assert_eq!(submit(&app, &cookie, &list, "/fallback", &[("fallback_value", "")]).await.status, 303);
        assert_eq!(app.get("/contact-properties").key(&key).send().await.json()["data"][0]["fallback_value"], json!(null));
        let id = stored["id"].as_str().expect("an id");
        let ask = page(&app, &cookie, &format!("/properties/{id}/delete")).await;
        assert_eq!(submit(&app, &cookie, &ask, "/delete", &[]).await.status, 303);
        assert_eq!(app.count("contact_properties").await, 0);
    }

    async fn a_file_is_told_once_however_many_pieces_it_has(app: TestApp) {
        let cookie = owner(&app).await;
        let rows: String = (0..40_000).map(|number| format!("person-{number}@example.com\n")).collect();
        let handed = hand_in(&app, &cookie, &format!("email\n{rows}")).await;
        assert_eq!(handed.status, 303, "{}", handed.text());
        assert!(app.count("contact_import_chunks").await > 2, "more than one commit holds");
        assert_eq!(app.told().await, ["workspace.created", "import.uploaded"]);
    }

    async fn a_file_is_mapped_by_sight_imported_and_had_again(app: TestApp) {
        let key = app.full_key().await;
        let cookie = owner(&app).await;
        app.post("/contact-properties").key(&key).json(json!({"key": "seats", "type": "number"})).send().await;
        let vip = app.post("/segments").key(&key).json(json!({"name": "VIP"})).send().await.json()["id"].as_str().expect("an id").to_owned();
        let topic = async |name: &str, default: &str| {
            let made = app.post("/topics").key(&key).json(json!({"name": name, "default_subscription": default})).send().await;
            made.json()["id"].as_str().expect("an id").to_owned()
        };
        let (news, offers) = (topic("News", "opt_out").await, topic("Offers", "opt_in").await);
        topic("Others", "opt_in").await;
        let empty = hand_in(&app, &cookie, "").await;
        assert_eq!(empty.status, 422, "{}", empty.text());
        for piece in ["aria-invalid=\"true\" aria-describedby=\"f-file-error\"", "<p class=\"field-error\" id=\"f-file-error\">"] {
            assert!(empty.text().contains(piece), "{piece}: {}", empty.text());
        }
        let file = "Mail,Name,Seats,Junk\nada@example.com,Ada,3,x\nno address,Bob,1,x\ncy@example.com,\"Cy, \"\"C\"\"\",many,x\n";
        let handed = hand_in(&app, &cookie, file).await;
        assert_eq!(handed.status, 303, "{}", handed.text());
        let at = handed.location().trim_start_matches("/dashboard").to_owned();
        let map = page(&app, &cookie, &at).await;
        for piece in ["ada@example.com", "Cy, &#34;C&#34;", "Property seats", "VIP", "<bdi>Offers</bdi>"] {
            assert!(map.contains(piece), "{piece}: {map}");
        }
        let (wanted, unwanted) = (format!("{news} opt_in"), format!("{offers} opt_out"));
        let refused = submit(&app, &cookie, &map, "/map", &[("column", ""), ("column", "first_name"), ("column", ""), ("column", ""), ("topic", &wanted), ("topic", &unwanted)]).await;
        assert!(refused.status == 422 && refused.text().contains("No column is said to hold the addresses"), "{}", refused.text());
        for chosen in [&wanted, &unwanted] {
            assert!(refused.text().contains(&format!("<option value=\"{chosen}\" selected>")), "{}", refused.text());
        }
        let beside = |page: &str, name: &str| page.matches(&format!("aria-invalid=\"true\" aria-describedby=\"{name}-error\"")).count();
        assert_eq!(beside(&refused.text(), "columns"), 4, "none of them holds it: {}", refused.text());
        let doubled = submit(&app, &cookie, &map, "/map", &[("column", "email"), ("column", "first_name"), ("column", "email"), ("column", "")]).await;
        assert!(doubled.text().contains("id=\"columns-error\">Two columns are said to be"), "{}", doubled.text());
        assert_eq!(beside(&doubled.text(), "columns"), 2, "{}", doubled.text());
        let columns = [("column", "email"), ("column", "first_name"), ("column", "property:seats"), ("column", "")];
        let gone = [&columns[..], &[("segment", "01890000-0000-7000-8000-000000000000")]].concat();
        let gone = submit(&app, &cookie, &map, "/map", &gone).await;
        assert!(gone.text().contains("id=\"segments-error\">There is no such segment here."), "{}", gone.text());
        assert!(beside(&gone.text(), "segments") > 0 && beside(&gone.text(), "columns") == 0, "{}", gone.text());
        let both = format!("{news} opt_out");
        for (topics, message) in [([&wanted, &both], "wants it both ways"), ([&wanted, &"01890000-0000-7000-8000-000000000000 opt_in".to_owned()], "There is no such topic here.")] {
            let typed = [&columns[..], &topics.map(|topic| ("topic", topic.as_str()))].concat();
            let refused = submit(&app, &cookie, &map, "/map", &typed).await;
            assert!(refused.status == 422 && refused.text().contains(message), "{message}: {}", refused.text());
            assert!(beside(&refused.text(), "topics") > 0 && refused.text().contains("id=\"topics-error\">"), "{}", refused.text());
            assert!(refused.text().contains(&format!("<option value=\"{wanted}\" selected>")), "{}", refused.text());
        }
        let typed = [&columns[..], &[("on_conflict", "skip"), ("segment", &vip), ("topic", &wanted), ("topic", &unwanted), ("topic", "")]].concat();
        let begun = submit(&app, &cookie, &map, "/map", &typed).await;
        assert_eq!(begun.status, 303, "{}", begun.text());
        let one = begun.location().trim_start_matches("/dashboard").to_owned();
        assert!(page(&app, &cookie, &one).await.contains("data-refresh=\"2\""));
        app.assert_told(&["topic.created", "import.uploaded", "import.created"]).await;
        work_off(&app).await;
        let done = page(&app, &cookie, &one).await;
        for piece in ["Done", "Refused rows", "<td role=\"cell\" data-label=\"Line\">3</td>", "must be a number"] {
            assert!(done.contains(piece), "{piece}: {done}");
        }
        assert!(!done.contains("data-refresh"));
        assert!(page(&app, &cookie, "/imports").await.contains(&one));
        let found = app.get("/contacts/ada@example.com").key(&key).send().await.json();
        assert_eq!((&found["first_name"], &found["properties"]["seats"]["value"]), (&json!("Ada"), &json!(3)));
        let topics = app.get("/contacts/ada@example.com/topics").key(&key).send().await.json();
        let chosen = |name: &str| topics["data"].as_array().and_then(|all| all.iter().find(|topic| topic["name"] == name)).map(|topic| topic["subscription"].clone());
        assert_eq!((chosen("News"), chosen("Offers"), chosen("Others")), (Some(json!("opt_in")), Some(json!("opt_out")), Some(json!("opt_in"))), "{topics}");
        let moved = app.get(format!("/dashboard{at}")).header("cookie", &cookie).send().await;
        assert_eq!(moved.status, 303);

        let file = app.get("/dashboard/contacts.csv").header("cookie", &cookie).send().await;
        assert_eq!(file.header("content-type"), Some("text/csv; charset=utf-8"));
        assert!(file.text().starts_with("\"email\",\"first_name\",\"last_name\",\"unsubscribed\",\"created_at\",\"seats\"\r\n\"ada@example.com\",\"Ada\",\"\",\"false\","), "{}", file.text());
        let some = app.get(format!("/dashboard/contacts.csv?segment={vip}")).header("cookie", &cookie).send().await;
        assert_eq!(some.text().lines().count(), 2);
        app.store.run("UPDATE memberships SET role = 'member'").await;
        assert_eq!(app.get("/dashboard/contacts.csv").header("cookie", &cookie).send().await.status, 403);
        assert_eq!(app.get(format!("/dashboard{at}")).header("cookie", &cookie).send().await.status, 403);
        assert!(!page(&app, &cookie, "/segments").await.contains("Create segment"));
    }
}

//! `posthorn templates`, through the real binary.

use std::fs;
use std::path::Path;

use crate::binary::{Said, posthorn, say};
use crate::harness::{TestApp, on_both};
use crate::store::Store;
use crate::templates::{make, order};

const FILE: &str = "---\nname: Welcome\nsubject: Hi {{{NAME|you}}}\nfrom: us@acme.example\nvariable: COUNT number = 1\n---\n<p>{{ COUNT }}</p>\n";

async fn templates(store: &Store, args: &[&str], directory: &Path) -> Said {
    let url = store.url();
    let path = directory.to_str().expect("a path").to_owned();
    let args: Vec<String> = ["templates"]
        .iter()
        .chain(args)
        .map(|&arg| arg.to_owned())
        .chain([path, "--database-url".to_owned(), url])
        .collect();
    let told =
        tokio::task::spawn_blocking(move || say(posthorn(&args.iter().map(String::as_str).collect::<Vec<_>>()), ""));
    told.await.expect("a command")
}

on_both! {
    async fn files_are_pushed_compared_and_pulled_to_the_byte(store: Store) {
        let app = TestApp::open(&store, &[]).await;
        let key = app.full_key().await;
        let (there, back) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
        assert!(templates(&store, &["push"], there.path()).await.failed().contains("no file"));
        fs::write(there.path().join("welcome.html"), FILE).expect("a file");
        fs::write(there.path().join("welcome.txt"), "{{ COUNT }}\n").expect("a file");
        let new = templates(&store, &["diff"], there.path()).await;
        assert!(new.code == Some(1) && new.out.contains("welcome.html is new"), "{}", new.out);
        assert_eq!(templates(&store, &["push"], there.path()).await.ok(), "created welcome\n");
        assert_eq!(templates(&store, &["push", "--publish"], there.path()).await.ok(), "unchanged welcome, published\n");
        assert!(templates(&store, &["diff"], there.path()).await.ok().contains("Nothing differs"));
        let made = app.get("/templates/welcome").key(&key).send().await.json();
        assert_eq!((&made["status"], &made["html"], &made["text"]), (&"published".into(), &"<p>{{ COUNT }}</p>\n".into(), &"{{ COUNT }}\n".into()));
        assert_eq!(made["variables"][0]["fallback_value"], 1);

        fs::write(there.path().join("welcome.html"), FILE.replace("<p>", "<h1>")).expect("a file");
        let changed = templates(&store, &["diff"], there.path()).await;
        assert!(changed.code == Some(1) && changed.out.contains("-<p>{{ COUNT }}</p>\n+<h1>"), "{}", changed.out);
        assert_eq!(templates(&store, &["push"], there.path()).await.ok(), "changed welcome\n");
        let draft = app.get("/templates/welcome").key(&key).send().await.json();
        assert_eq!((&draft["status"], &draft["has_unpublished_versions"]), (&"published".into(), &true.into()));

        make(&app, &key, order()).await;
        templates(&store, &["pull"], back.path()).await.ok();
        let pulled = fs::read_to_string(back.path().join("welcome.txt")).expect("a file");
        assert_eq!(pulled, "{{ COUNT }}\n");
        let same = templates(&store, &["diff"], back.path()).await.ok();
        assert!(same.contains("Nothing differs") && !same.contains("alone"), "{same}");
        fs::remove_file(back.path().join("order.html")).expect("a file");
        let lacking = templates(&store, &["diff"], back.path()).await.ok();
        assert!(lacking.contains("order is in the store alone") && lacking.contains("Nothing differs"), "{lacking}");
        templates(&store, &["pull"], back.path()).await.ok();
        assert!(fs::read_to_string(back.path().join("order.html")).expect("a file").ends_with(order()["html"].as_str().expect("HTML")));

        fs::write(there.path().join("welcome.html"), "---\nname: x\n---\n\n{{").expect("a file");
        let refused = templates(&store, &["push"], there.path()).await.failed();
        assert!(refused.contains("welcome") && refused.contains("line 2"), "{refused}");
    }
}

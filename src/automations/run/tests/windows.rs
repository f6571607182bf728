//! Mail that is put off until it may be sent.

use super::*;

fn window(from: &str, until: &str) -> Window {
    Window::parse(&json!({"from": from, "until": until})).expect("a window")
}

fn waiting(scene: &Scene) -> &Value {
    &scene.run.trace.last().expect("a step").output.as_ref().expect("why it waits")["waiting"]
}

#[test]
fn mail_outside_its_window_waits_until_it_opens_and_says_why() {
    let mut scene = Scene::new(chain(json!([mail()])));
    scene.send_window = Some(window("08:00", "20:00"));
    assert_eq!(scene.advance(), []);
    assert_eq!((scene.status("mail"), scene.run.due_at(0)), (Some(Status::Waiting), Some(8 * HOUR)));
    assert_eq!(waiting(&scene)["until"], "1970-01-01T08:00:00.000000Z");
    let reason = "it waits until 1970-01-01 08:00 in UTC: the automation sends from 08:00 until 20:00";
    assert_eq!(waiting(&scene)["reason"], reason);
    scene.now = 8 * HOUR - 1;
    assert_eq!((scene.advance(), scene.run.due_at(scene.now)), (vec![], Some(8 * HOUR)), "it is not let go early");
    scene.now = 8 * HOUR;
    assert_eq!(scene.advance().len(), 1);
    assert_eq!((scene.status("mail"), scene.run.ending()), (Some(Status::Completed), Some(Ending::Completed)));
    assert_eq!(scene.run.trace[1].output.as_ref().expect("output").get("waiting"), None);
}

#[test]
fn a_window_counts_where_the_contact_is() {
    for (timezone, due) in [("Asia/Tokyo", 23 * HOUR), ("America/New_York", 13 * HOUR), ("Mars/Olympus", 8 * HOUR)] {
        let mut scene = Scene::new(chain(json!([mail()])));
        scene.send_window = Some(window("08:00", "08:30"));
        scene.contact.as_mut().expect("a contact")["properties"] = json!({"timezone": timezone});
        assert_eq!((scene.advance(), scene.run.due_at(0)), (vec![], Some(due)), "{timezone}");
    }
}

#[test]
fn the_window_of_a_step_holds_instead_of_the_automations() {
    let mut step = mail();
    step["config"]["send_window"] = json!({"from": "10:00", "until": "11:00"});
    let mut scene = Scene::new(chain(json!([step])));
    scene.send_window = Some(window("00:00", "24:00"));
    assert_eq!((scene.advance(), scene.run.due_at(0)), (vec![], Some(10 * HOUR)));
    assert!(waiting(&scene)["reason"].as_str().is_some_and(|reason| reason.contains("the step sends")));
}

#[test]
fn a_run_that_is_put_off_ends_when_its_event_comes_or_its_contact_is_gone() {
    for is_exit in [true, false] {
        let mut scene = Scene::new(chain(json!([mail()])));
        scene.send_window = Some(window("08:00", "20:00"));
        scene.exit_on = Some("cancelled".into());
        scene.advance();
        match is_exit {
            true => scene.hear("cancelled", json!({})),
            false => (scene.contact, scene.now) = (None, 9 * HOUR),
        }
        assert_eq!((scene.advance(), scene.run.ending()), (vec![], Some(Ending::Cancelled)));
        assert_eq!(scene.run.trace[1].output.as_ref().and_then(|output| output.get("waiting")), None);
    }
}

#[test]
fn a_clock_that_is_set_back_lets_no_mail_out_early() {
    let mut scene = Scene::new(chain(json!([mail()])));
    scene.send_window = Some(window("08:00", "20:00"));
    scene.advance();
    // It is looked at when eight hours have passed, but clocks show six.
    scene.now = 6 * HOUR;
    let looked = scene.world(|run, graph, world| {
        world.steady = 8 * HOUR;
        run.advance(graph, world)
    });
    assert_eq!((looked, scene.run.due_at(8 * HOUR)), (vec![], Some(10 * HOUR)));
}

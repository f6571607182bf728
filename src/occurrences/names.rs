//! What happens without anybody having defined it.

/// The names of what the product itself lets happen.
pub struct SystemEvent;

impl SystemEvent {
    pub const CONTACT_CREATED: &str = "svc:contact.created";
    pub const CONTACT_UPDATED: &str = "svc:contact.updated";
    pub const CONTACT_DELETED: &str = "svc:contact.deleted";
    pub const CONTACT_UNSUBSCRIBED: &str = "svc:contact.unsubscribed";
    pub const EMAIL_QUEUED: &str = "svc:email.queued";
    pub const EMAIL_SENT: &str = "svc:email.sent";
    pub const EMAIL_DELIVERED: &str = "svc:email.delivered";
    pub const EMAIL_DELIVERY_DELAYED: &str = "svc:email.delivery_delayed";
    pub const EMAIL_OPENED: &str = "svc:email.opened";
    pub const EMAIL_CLICKED: &str = "svc:email.clicked";
    pub const EMAIL_BOUNCED: &str = "svc:email.bounced";
    pub const EMAIL_COMPLAINED: &str = "svc:email.complained";
    pub const EMAIL_FAILED: &str = "svc:email.failed";
    pub const EMAIL_SUPPRESSED: &str = "svc:email.suppressed";
    pub const EMAIL_RECEIVED: &str = "svc:email.received";

    pub const ALL: [&str; 15] = [
        SystemEvent::CONTACT_CREATED,
        SystemEvent::CONTACT_UPDATED,
        SystemEvent::CONTACT_DELETED,
        SystemEvent::CONTACT_UNSUBSCRIBED,
        SystemEvent::EMAIL_QUEUED,
        SystemEvent::EMAIL_SENT,
        SystemEvent::EMAIL_DELIVERED,
        SystemEvent::EMAIL_DELIVERY_DELAYED,
        SystemEvent::EMAIL_OPENED,
        SystemEvent::EMAIL_CLICKED,
        SystemEvent::EMAIL_BOUNCED,
        SystemEvent::EMAIL_COMPLAINED,
        SystemEvent::EMAIL_FAILED,
        SystemEvent::EMAIL_SUPPRESSED,
        SystemEvent::EMAIL_RECEIVED,
    ];
}

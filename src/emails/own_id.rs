//! Ids of mails that share a row: a broadcast's. Its id ends in 32 zero bits, and each recipient's
//! own mail has that id with the recipient's number in them.

use uuid::Uuid;

use crate::id::{EmailId, Id};

const NUMBER: u128 = 0xffff_ffff;

/// An id with room for the numbers of recipients.
pub fn shared_id<T: Id>(id: T) -> T {
    T::from(Uuid::from_u128(id.uuid().as_u128() & !NUMBER))
}

/// The id of a recipient's own mail.
pub fn own_id(shared: EmailId, number: i64) -> EmailId {
    EmailId::from(Uuid::from_u128(shared.uuid().as_u128() | number as u128 & NUMBER))
}

/// The shared id and the number that an own id would be made of.
pub fn parts_of(own: EmailId) -> (EmailId, i64) {
    (shared_id(own), (own.uuid().as_u128() & NUMBER) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;

    #[test]
    fn an_own_id_tells_whose_it_is() {
        let shared: EmailId = shared_id(Clock::fixed(1_767_323_045_678_901).ordered_id());
        for number in [1, 2, 100_000, i64::from(u32::MAX)] {
            let own = own_id(shared, number);
            assert_eq!(parts_of(own), (shared, number));
            assert_eq!(own.uuid().get_version_num(), 7);
        }
        assert_eq!(parts_of(shared), (shared, 0));
    }
}

//! `demo`.
use super::failure::Failure;
pub(crate) async fn demo(_once: bool) -> Result<(), Failure> {
    Err(Failure::flags("not yet"))
}

//! GetCallerIdentity of STS, which returns the account.

use crate::api::Fault;
use crate::wire::xml;

pub(crate) const VERSION: &str = "2011-06-15";
const NAMESPACE: &str = "https://sts.amazonaws.com/doc/2011-06-15/";

pub(crate) const ACTION: &str = "GetCallerIdentity";

/// Returns the reply: the caller is a user of the account, named after its access key.
pub(crate) fn caller(account: &str, key_id: &str, request_id: &str) -> String {
    xml::document_in(&format!("{ACTION}Response"), NAMESPACE, |w| {
        w.element(&format!("{ACTION}Result"), |w| {
            w.text("Arn", &format!("arn:aws:iam::{account}:user/{key_id}"));
            w.text("UserId", key_id);
            w.text("Account", account);
        });
        w.element("ResponseMetadata", |w| w.text("RequestId", request_id));
    })
}

pub(crate) fn refusal(fault: &Fault, request_id: &str) -> String {
    xml::document_in("ErrorResponse", NAMESPACE, |w| {
        w.element("Error", |w| {
            w.text("Type", if fault.status < 500 { "Sender" } else { "Receiver" });
            w.text("Code", &fault.code);
            w.text("Message", &fault.message);
        });
        w.text("RequestId", request_id);
    })
}

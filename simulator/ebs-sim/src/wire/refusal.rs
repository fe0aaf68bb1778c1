//! EC2's error replies.

use crate::api::Fault;
use crate::wire::xml;

pub(crate) fn body(fault: &Fault, request_id: &str) -> String {
    xml::document("Response", |w| {
        w.element("Errors", |w| {
            w.element("Error", |w| {
                w.text("Code", &fault.code);
                w.text("Message", &fault.message);
            });
        });
        w.text("RequestID", request_id);
    })
}

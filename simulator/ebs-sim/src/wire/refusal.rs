//! EC2's error replies.

use crate::api::Fault;
use crate::wire::xml;

/// Returns the body of an error.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// An error has code, message and request id.
    #[test]
    fn error_has_format_that_every_sdk_parses() {
        assert_eq!(
            body(&Fault::new("InvalidVolume.NotFound", "no <vol-1> & none"), "r-1"),
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Response><Errors><Error><Code>InvalidVolume.NotFound</Code>\
             <Message>no &lt;vol-1&gt; &amp; none</Message></Error></Errors><RequestID>r-1</RequestID></Response>"
        );
    }
}

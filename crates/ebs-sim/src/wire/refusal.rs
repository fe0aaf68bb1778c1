//! Answers that say no: the faults that decoding itself finds, and how any fault travels.

use crate::api::Fault;
use crate::wire::xml;

/// A parameter that must be there.
pub(crate) fn missing(name: &str) -> Fault {
    Fault::new("MissingParameter", format!("The request must contain the parameter {name}"))
}

/// A parameter whose value cannot be what it should.
pub(crate) fn invalid_value(name: &str, value: &str, wanted: &str) -> Fault {
    let message = format!("Value ({value}) for parameter {name} is invalid. Expected {wanted}.");
    Fault::new("InvalidParameterValue", message)
}

/// A parameter, or a value of one, that EC2 has and the simulator has not.
pub(crate) fn unsupported(what: &str) -> Fault {
    Fault::new("UnsupportedOperation", format!("{what} is not simulated."))
}

/// The body of an error answer.
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

    #[test]
    fn an_error_answer_has_the_shape_every_sdk_parses() {
        assert_eq!(
            body(&Fault::new("InvalidVolume.NotFound", "no <vol-1> & none"), "r-1"),
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Response><Errors><Error><Code>InvalidVolume.NotFound</Code>\
             <Message>no &lt;vol-1&gt; &amp; none</Message></Error></Errors><RequestID>r-1</RequestID></Response>"
        );
    }
}

//! Reads the error answers of services that use JSON.

use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use serde::Deserialize;

/// Returns the code and message of an error answer. Some services add a namespace before the code or a URL after it.
pub(crate) fn code_and_message(response: &HttpResponse) -> (Option<String>, Option<String>) {
    #[derive(Default, Deserialize)]
    struct Body {
        #[serde(rename = "__type", alias = "code")]
        code: Option<String>,
        #[serde(alias = "Message")]
        message: Option<String>,
    }
    let body: Body = serde_json::from_slice(response.body().bytes().unwrap_or_default()).unwrap_or_default();
    let header = response.headers().get("x-amzn-errortype").map(str::to_owned);
    let bare = |code: String| {
        let code = code.split_once(':').map_or(code.as_str(), |(code, _)| code);
        code.rsplit('#').next().unwrap_or(code).trim().to_owned()
    };
    (header.or(body.code).map(bare).filter(|code| !code.is_empty()), body.message)
}

#[cfg(test)]
mod tests {
    use aws_smithy_types::body::SdkBody;

    use super::*;

    #[test]
    fn error_code_is_found_in_header_and_body() {
        let found = |header: Option<&'static str>, body: &'static str| {
            let mut response = HttpResponse::new(400.try_into().unwrap(), SdkBody::from(body));
            if let Some(header) = header {
                response.headers_mut().insert("x-amzn-errortype", header);
            }
            code_and_message(&response)
        };
        let wanted = (Some("ValidationException".to_owned()), Some("m".to_owned()));
        assert_eq!(found(None, r#"{"__type":"ValidationException","message":"m"}"#), wanted);
        assert_eq!(found(None, r#"{"__type":"com.amazon.coral#ValidationException","Message":"m"}"#), wanted);
        assert_eq!(found(Some("ValidationException:http://x/"), r#"{"message":"m"}"#), wanted);
        assert_eq!(found(None, r#"{"code":"ValidationException","message":"m","more":[1]}"#), wanted);
        assert_eq!(found(None, "<html>"), (None, None));
        assert_eq!(found(None, r#"{"__type":""}"#), (None, None));
    }
}

//! Macros for the table of actions. One row generates the parameters of an action, their decoding from a request, the
//! variants of `Call` and `Reply`, and the action's names.

/// Expands to the code that decodes one field, and to the code that visits it if it is a name.
macro_rules! field {
    (take $p:ident, $wire:expr, required $($role:ident)*) => {
        $p.required($wire)?
    };
    (take $p:ident, $wire:expr, present) => {
        $p.text($wire).is_some()
    };
    (take $p:ident, $wire:expr, $($role:ident)*) => {
        $p.take($wire)?
    };
    (each $field:expr, $each:ident, $first:ident name) => {
        $field.each_name($each)
    };
    (each $field:expr, $each:ident, name) => {
        $field.each_name($each)
    };
    (each $field:expr, $each:ident, $($role:ident)*) => {};
}

/// Defines the element type of a list. The names of its parameters begin with `name.1.`, `name.2.` ….
macro_rules! element {
    ($(#[$doc:meta])* $name:ident $(first $first:ident)? {
        $($(#[$about:meta])* $field:ident: $type:ty = $wire:literal $($role:ident)*;)*
    }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
        pub struct $name {
            $($(#[$about])* pub $field: $type,)*
        }

        impl Element for $name {
            fn element(p: &mut Params, prefix: &str) -> Result<Option<Self>, Fault> {
                $($first(p, prefix)?;)?
                Ok(Some(Self { $($field: field!(take p, &format!("{prefix}.{}", $wire), $($role)*),)* }))
            }
        }
    };
}

/// Defines the parameters of an action. Every action also has `DryRun`.
macro_rules! parameters {
    ($(#[$doc:meta])* $name:ident $(first $first:ident)? {
        $($(#[$about:meta])* $field:ident: $type:ty = $wire:literal $($role:ident)*;)*
    }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
        pub struct $name {
            $($(#[$about])* pub $field: $type,)*
            /// Whether the call is a dry run, which only checks if it would succeed. Neither stored nor compared.
            #[serde(skip)]
            pub dry_run: bool,
        }

        impl $name {
            pub(super) fn decode(p: &mut Params) -> Result<Self, Fault> {
                $($first(p)?;)?
                Ok(Self { $($field: field!(take p, $wire, $($role)*),)* dry_run: p.take("DryRun")? })
            }
        }

        impl Named for $name {
            fn each_name(&self, each: &mut dyn FnMut(&str)) {
                $(field!(each self.$field, each, $($role)*);)*
            }
        }
    };
}

/// Defines a describe action, which also has filters and paging parameters.
macro_rules! describe {
    ($name:ident $(first $first:ident)? { $($own:tt)* }) => {
        parameters!($name $(first $first)? {
            $($own)*
            filters: Vec<Filter> = "Filter" name;
            max_results: Option<i64> = "MaxResults";
            next_token: Option<String> = "NextToken";
        });
    };
}

/// The table of actions. EC2's actions have parameters, a reply and wire names. SageMaker's actions use existing
/// parameter types.
macro_rules! actions {
    (
        ec2 { $(
            $(#[$doc:meta])* $kind:ident $ec2:ident $(first $first:ident)? $(-> $reply:ty)? { $($fields:tt)* }
        )* }
        sagemaker { $($node:ident($parameters:ty) -> $node_reply:ty,)* }
    ) => {
        $($kind!($(#[$doc])* $ec2 $(first $first)? { $($fields)* });)*

        /// One call. Its JSON in the simulator's journal has no dry-run flag.
        #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
        pub enum Call {
            $($ec2($ec2),)*
            $($node($parameters),)*
        }

        /// The reply to a successful [`Call`].
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum Reply {
            $($ec2 $(($reply))?,)*
            $($node($node_reply),)*
        }

        impl Call {
            /// The names of all actions.
            pub(super) const ACTIONS: &[&str] = &[$(stringify!($ec2),)* $(stringify!($node),)*];

            /// Returns the action's name on the wire.
            pub fn action(&self) -> &'static str {
                match self {
                    $(Self::$ec2(_) => stringify!($ec2),)*
                    $(Self::$node(_) => stringify!($node),)*
                }
            }

            /// Returns the action's name in policies, such as `ec2:CreateVolume`.
            pub(crate) fn permission(&self) -> &'static str {
                match self {
                    $(Self::$ec2(_) => concat!("ec2:", stringify!($ec2)),)*
                    $(Self::$node(_) => concat!("sagemaker:", stringify!($node)),)*
                }
            }

            /// Returns whether the call is a dry run, which only checks if it would succeed.
            pub fn dry_run(&self) -> bool {
                match self {
                    $(Self::$ec2(call) => call.dry_run,)*
                    $(Self::$node(_) => false,)*
                }
            }

            /// Passes each name in the call to `each`: ids, the client token, and the values of filters and tags.
            pub(crate) fn each_name(&self, each: &mut dyn FnMut(&str)) {
                match self {
                    $(Self::$ec2(call) => call.each_name(each),)*
                    $(Self::$node(call) => call.each_name(each),)*
                }
            }

            /// Decodes an EC2 call from the parameters of a Query request.
            ///
            /// # Errors
            /// `InvalidAction`, `MissingParameter`, `InvalidParameterValue`, and `UnsupportedOperation` for parameters
            /// that EC2 supports and the simulator does not.
            pub(crate) fn decode(action: &str, p: &mut Params) -> Result<Self, Fault> {
                match action {
                    $(stringify!($ec2) => $ec2::decode(p).map(Self::$ec2),)*
                    _ => {
                        let message = format!("The action {action} is not valid for this web service.");
                        Err(Fault::new("InvalidAction", message))
                    }
                }
            }
        }

        impl Reply {
            /// Returns the action of the reply.
            pub(crate) fn action(&self) -> &'static str {
                match self {
                    $(Self::$ec2 { .. } => stringify!($ec2),)*
                    $(Self::$node { .. } => stringify!($node),)*
                }
            }
        }
    };
}

pub(super) use {actions, describe, element, field, parameters};

//! The calls of the API group `iscsi`.

use winstorage::service::Login;
use winstorage::types::Secret;

use super::{Table, rows};
use crate::status::Failure;

/// A portal as the client sent it: address and port.
type Portal = (String, u32);

/// Gets the portal of a request. It is optional in the message, but the call requires it.
macro_rules! portal {
    ($request:ident) => {
        match $request.target_portal {
            Some(portal) => Ok((portal.target_address, portal.target_port)),
            None => Err(Failure::Missing("target_portal is missing".to_owned())),
        }
    };
}

pub(super) fn table() -> Table {
    let mut table = Table::new();
    rows!(table, iscsi: v1alpha1 v1alpha2 => {
        AddTargetPortal writes: AddTargetPortalRequest, |request| portal!(request),
            |around, portal: Portal| around.storage.add_target_portal(&portal.0, portal.1) => AddTargetPortalResponse;
        RemoveTargetPortal writes: RemoveTargetPortalRequest, |request| portal!(request),
            |around, portal: Portal| around.storage.remove_target_portal(&portal.0, portal.1)
                => RemoveTargetPortalResponse;
        DiscoverTargetPortal reads: DiscoverTargetPortalRequest, |request| portal!(request),
            |around, portal: Portal| around.storage.discover_target_portal(&portal.0, portal.1),
            |iqns| m::DiscoverTargetPortalResponse { iqns };
        ListTargetPortals reads: ListTargetPortalsRequest, |_| Ok(()),
            |around, ()| around.storage.list_target_portals(),
            |portals| m::ListTargetPortalsResponse { target_portals: portals.into_iter().map(
                |at| m::TargetPortal { target_address: at.address().to_owned(), target_port: at.port().into() }
            ).collect() };
        ConnectTarget writes: ConnectTargetRequest,
            |request| Ok((portal!(request)?, request.iqn, Login {
                auth_type: request.auth_type,
                user: request.chap_username,
                secret: Secret::new(request.chap_secret),
            })),
            |around, (portal, iqn, login): (Portal, String, Login)| {
                around.storage.connect_target(&portal.0, portal.1, &iqn, &login)
            } => ConnectTargetResponse;
        DisconnectTarget writes: DisconnectTargetRequest, |request| Ok((portal!(request)?, request.iqn)),
            |around, (portal, iqn): (Portal, String)| {
                around.storage.disconnect_target(&portal.0, portal.1, &iqn)
            } => DisconnectTargetResponse;
        GetTargetDisks reads: GetTargetDisksRequest, |request| Ok((portal!(request)?, request.iqn)),
            |around, (portal, iqn): (Portal, String)| around.storage.target_disks(&portal.0, portal.1, &iqn),
            |disk_i_ds| m::GetTargetDisksResponse { disk_i_ds };
    });
    rows!(table, iscsi: v1alpha2 => {
        SetMutualChapSecret writes: SetMutualChapSecretRequest,
            |request| Ok(Secret::new(request.mutual_chap_secret)),
            |around, secret| around.storage.set_mutual_chap_secret(&secret) => SetMutualChapSecretResponse;
    });
    table
}

// Starts the peering plane in a site: creates its controllers and routes.

import { hostname } from 'node:os';
import { enrolmentOf } from '../api/enrolment.ts';
import { federationGrantKind } from '../api/kinds/federation-grant.ts';
import { type FederationPeer, federationPeerKind } from '../api/kinds/federation-peer.ts';
import { serviceOfferKind } from '../api/kinds/service-offer.ts';
import { spiffeFederationKind } from '../api/kinds/spiffe-federation.ts';
import { Certificate } from '../core/identity/x509/certificate.ts';
import { BundlePublisher } from '../core/identity/bundle/published-bundle.ts';
import type { PlaneContext, RunningPlane } from '../core/plane/plane.ts';
import { kindReader } from '../core/store/reader.ts';
import type { Store } from '../core/store/store.ts';
import { Acceptor } from './handshake/acceptor.ts';
import { callPeer } from './client/call-peer.ts';
import { FederationClient } from './client/federation-client.ts';
import { peerConnections } from './client/peer-connections.ts';
import { softSteps } from './handshake/acceptance.ts';
import { admitGrant } from './grants/admit-grant.ts';
import { grantsOf } from './grants/grants-of-peer.ts';
import { announcementController } from './controllers/announcement-controller.ts';
import { connectionController } from './controllers/connection-controller.ts';
import { enforcementController } from './controllers/enforcement-controller.ts';
import { enforcementReportController } from './controllers/enforcement-report-controller.ts';
import { grantController } from './controllers/grant-controller.ts';
import { spireBundleController } from './controllers/spire-bundle-controller.ts';
import { heartbeatController } from './controllers/heartbeat-controller.ts';
import { distrustController, peerController } from './controllers/peer-controller.ts';
import { catalogRoutes } from './routes/catalog-routes.ts';
import { clusterBundleRoute } from './routes/cluster-bundle-route.ts';
import { federationRoutes } from './routes/federation-routes.ts';
import { peerCatalogRoute } from './routes/peer-catalog-route.ts';
import { peeringPoints } from './enforcement/peering-points.ts';
import { Replicas } from './enforcement/replicas.ts';
import { Handshake } from './handshake/handshake.ts';
import { HeartbeatExchange } from './peers/heartbeat-exchange.ts';
import { Inviter } from './handshake/inviter.ts';
import type { OfferTold } from './messages.ts';
import { clustersFor } from './grants/granted-clusters.ts';
import { offersFor } from './grants/offers.ts';
import { ownCluster } from './grants/own-clusters.ts';
import { operatorRoutes } from './routes/operator-routes.ts';
import { admitPeer } from './peers/admit-peer.ts';
import { PeerRepository } from './peers/peer-repository.ts';
import { peerDirectory } from './peers/peer-directory.ts';
import { PeerFederations, type SpiffeFederation } from './peers/peer-federation.ts';
import { observePeers } from './peers/peer-metrics.ts';
import { Peerings } from './handshake/peerings.ts';
import type { PeeringSettings } from './settings.ts';
import { wishesOf } from './peers/wishes.ts';
import { observeLogs } from './witness/log-metrics.ts';
import { witnessRoutes } from './routes/witness-routes.ts';
import { OperatorDecisions } from './witness/operator-decisions.ts';
import { Witness } from './witness/witness.ts';

export async function startPeering(
  context: PlaneContext,
  settings: PeeringSettings,
): Promise<RunningPlane> {
  const { trustDomain, store, clock, random, audit, metrics, sealer, authority } = context;
  // Peers keep calling each other while a bundle is stale.
  const { heldBundles: bundles, transport, advertiseURL } = context;
  const publisher = new BundlePublisher(store, authority);
  const peers = new PeerRepository(context.resources<FederationPeer>(federationPeerKind), clock);
  const federations = new PeerFederations(
    context.resources<SpiffeFederation>(spiffeFederationKind),
    clock,
  );
  const leaves = ownLeaves(context);
  const told = grantedOffers(store, () => clock.now());
  const witness = new Witness({
    trustDomain,
    store,
    clock,
    log: context.log,
    audit,
    publicLog: context.publicLog,
    peers,
    passesOn: settings.passesOnCheckpoints,
  });
  // Without it, messages have no part about logs. Records of earlier times stay, and operators still see them.
  const witnessing = settings.witnesses ? { witness } : {};
  const decisions = new OperatorDecisions({
    self: trustDomain.name,
    store,
    audit,
    approvals: context.approvals,
    witness,
  });
  const inviter = new Inviter({
    trustDomain,
    store,
    clock,
    random,
    audit,
    own: authority,
    bundles,
    peers,
    advertiseURL,
    ownLeaves: leaves.current,
    confirmMode: () => context.approvals.policy.modeOf('peer.confirm'),
    offersFor: (peer) => told(peer).map(({ name }) => name),
  });
  const peerings = new Peerings(trustDomain, store);
  const acceptor = new Acceptor({
    trustDomain,
    transport,
    clock,
    random,
    settings,
    own: authority,
    document: async () => (await publisher.current()).document.toString('utf8'),
    advertiseURL,
    ...(settings.witnesses && {
      introduction: async (to) => ({ logIntroduction: await witness.introduction(to) }),
    }),
  });
  const handshake = new Handshake({
    store,
    clock,
    settings,
    sealer,
    peers,
    federations,
    inviter,
    peerings,
    acceptor,
    softSteps,
    ...(settings.witnesses && {
      introduced: (peer, introduction) =>
        witness.introduced({ name: peer.metadata.name, uid: enrolmentOf(peer) }, introduction),
    }),
  });
  const kept = peerConnections(context);
  const { connections, planeConnections } = kept;
  const heartbeats = new HeartbeatExchange({
    trustDomain,
    store,
    clock,
    settings,
    connections,
    bundles,
    peers,
    federations,
    audit,
    offersFor: told,
    ...witnessing,
    clustersFor: (peer) =>
      clustersFor(
        peer,
        grantsOf(store, peer),
        (cluster) => ownCluster(store, cluster) !== undefined,
        clock.now(),
      ),
  });
  const client = new FederationClient({ connections: planeConnections, settings, audit });
  for (const point of peeringPoints({ store, connections: [connections, planeConnections] })) {
    context.enforcement.register(point);
  }
  await handshake.sweep();
  const replicas = new Replicas({ ...context, host: hostname() });
  await replicas.start();
  const enforcement = { ...context, replicas };
  observePeers(metrics, store, () => clock.now());
  observeLogs(metrics, witness);
  const results = metrics.counter({
    name: 'hansa_peer_heartbeats_total',
    help: 'Heartbeats by direction and result.',
    labels: ['direction', 'result'],
  });
  return {
    controllers: [
      peerController({ store, clock, settings, handshake }),
      distrustController({ store, clock, handshake }),
      connectionController({ store, clock, connections: [connections, planeConnections] }),
      heartbeatController({ store, clock, random, settings, peers, heartbeats, results }),
      announcementController({ store, clock, settings, peers, heartbeats }),
      grantController(context),
      spireBundleController({ store, clock, settings, peers, client }),
      enforcementReportController(enforcement),
      enforcementController(enforcement),
    ],
    routes: [
      ...federationRoutes({
        trustDomain,
        clock,
        audit,
        advertiseURL,
        federations,
        inviter,
        peerings,
        handshake,
        heartbeats,
        results,
        ...witnessing,
      }),
      ...catalogRoutes({ store, clock }),
      clusterBundleRoute({ store, clock }),
      peerCatalogRoute({ peers, client }),
      ...witnessRoutes(witness, context.publicLog, decisions),
      ...operatorRoutes({
        trustDomain,
        own: authority,
        store,
        clock,
        sealer,
        audit,
        approvals: context.approvals,
        peers,
        federations,
        inviter,
        peerings,
        acceptor,
        handshake,
      }),
    ],
    peers: peerDirectory({ trustDomain, store, clock, audit, log: context.log }),
    callPeer: callPeer({ store, connections: planeConnections }),
    admit: (kind, next, live, warn) => {
      if (kind === federationGrantKind) admitGrant(next, live, store, warn);
      admitPeer(kind, next, live);
      return [];
    },
    accompany: (...write) => wishesOf(store, ...write),
    stop: async () => {
      leaves.stop();
      kept.stop();
      await replicas.stop();
    },
  };
}

/** Fingerprints of the leaf that the listeners present, and of the one before the last renewal. */
function ownLeaves({ credentials }: PlaneContext): {
  readonly current: () => readonly string[];
  readonly stop: () => void;
} {
  const fingerprint = (chain: readonly Buffer[]): string =>
    Certificate.parse(chain[0] as Buffer).fingerprint;
  let leaves = [fingerprint(credentials.current.chain)];
  const stop = credentials.onRenewal(({ chain }) => {
    leaves = [fingerprint(chain), ...leaves].slice(0, 2);
  });
  return { current: () => leaves, stop };
}

const offersReader = kindReader(serviceOfferKind);

/** Called for every heartbeat. */
function grantedOffers(store: Store, now: () => number): (peer: string) => readonly OfferTold[] {
  return (peer) => offersFor(peer, grantsOf(store, peer), offersReader.list(store), now());
}

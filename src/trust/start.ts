// Starts the trust plane in a site: creates its controllers, routes and services.

import { joinTokenKind } from '../api/kinds/join-token.ts';
import { spiffeFederationKind } from '../api/kinds/spiffe-federation.ts';
import { workloadEntryKind } from '../api/kinds/workload-entry.ts';
import { siteAgentName } from '../api/values/agent-name.ts';
import { Certificate } from '../core/identity/x509/certificate.ts';
import { BundlePublisher } from '../core/identity/bundle/published-bundle.ts';
import type { Log } from '../core/log/log.ts';
import type { PlaneContext, RunningPlane } from '../core/plane/plane.ts';
import { incarnationOf } from '../core/store/incarnation.ts';
import { agentChannel } from './agents/agent-channel.ts';
import { keepAgents } from './agents/agents.ts';
import { agentIdentities } from './agents/agent-identities.ts';
import { StoreAssignments } from './agents/store-assignments.ts';
import { admitFederation } from './federation/admit-federation.ts';
import { bundleRoutes } from './federation/bundle-endpoint.ts';
import { federationController } from './controllers/federation-controller.ts';
import { examineRoutes } from './federation/examine-endpoint.ts';
import { observeExpiry } from './expiry-metrics.ts';
import { FederatedBundles } from './federation/federated-bundles.ts';
import { FederationLimit } from './federation/federation-limit.ts';
import { FederationMetrics, observeFederations } from './federation/federation-metrics.ts';
import { admitToken } from './join/admit-token.ts';
import { joining } from './join/join.ts';
import { mintCalls } from './mint/mint-service.ts';
import { refreshRoutes } from './federation/refresh-routes.ts';
import { StoreFederationState } from './authorization/federation-state.ts';
import { Rotation } from './rotation/rotation.ts';
import { rotationController } from './controllers/rotation-controller.ts';
import { rotationRoutes } from './rotation/rotation-routes.ts';
import type { TrustSettings } from './settings.ts';
import { oidcDiscoveryRoutes } from './web/oidc-discovery.ts';
import { startWebCertificate } from './web/web-certificate.ts';
import { admitNames } from './workload/entries/admit-entry.ts';
import { workloadServices } from './workload/workload-services.ts';

export async function startTrust(
  given: PlaneContext,
  settings: TrustSettings,
): Promise<RunningPlane> {
  const bundles = new FederatedBundles(given.store, given.authority, given.clock);
  const context: PlaneContext = { ...given, bundles, heldBundles: bundles.held };
  const { store, authority, clock, metrics } = context;
  const { jwtIssuer: issuer, maxFederations } = settings;
  const publisher = new BundlePublisher(store, authority, settings.refreshHintSeconds);
  // Before the first request, so that the sequence is known.
  await publisher.current();
  const incarnation = await incarnationOf(store, context.random);
  observeFederations(metrics, store, clock, maxFederations);
  const limit = new FederationLimit(store, maxFederations, context.log, metrics);
  const rotation = new Rotation(context, settings.rotation);
  const rotationParts = { ...context, publisher, rotation };
  // First, because it may reject the configuration.
  const web = await startWebCertificate(settings.web, context);
  const federationState = new StoreFederationState(store, bundles);
  // They come from the configuration, so they do not change while the process runs.
  const siteNames = [
    ...namesOf(context.credentials.current),
    ...context.reservedDomains.map((domain) => `.${domain}`),
  ];
  const assignments = new StoreAssignments(store);
  const workloads = await workloadServices({
    ...context,
    federationState,
    siteNames,
    agent: siteAgentName,
    assignments,
    jwtIssuer: issuer,
  }).catch((error: unknown) => {
    web?.stop();
    throw error;
  });
  const unpublish = authority.onChange(() => void publish(publisher, context.log));
  observeExpiry({
    ...context,
    web: web?.certificate,
    firstWorkloadExpiryMs: workloads.firstExpiryMs,
    maxFederations,
  });
  const joins = joining({ ...context, federationState }, settings.reattestWithinSeconds);
  const { members } = joins;
  const identities = agentIdentities({
    ...context,
    federationState,
    assignments,
    members,
    siteNames,
    jwtIssuer: issuer,
  });
  const agents = keepAgents({
    ...context,
    federationState,
    assignments,
    members,
    workloads: workloads.connected,
  });
  const channel = agentChannel({ ...context, incarnation, members, sign: identities.sign });
  return {
    controllers: [
      federationController(context, new FederationMetrics(metrics, maxFederations)),
      rotationController(rotationParts),
      ...workloads.controllers,
      ...joins.controllers,
      ...agents.controllers,
      ...(web?.controllers ?? []),
    ],
    routes: [
      ...bundleRoutes(publisher),
      ...(issuer === undefined ? [] : oidcDiscoveryRoutes({ issuer, authority, settings })),
      ...refreshRoutes(context),
      ...examineRoutes(context),
      ...rotationRoutes(rotationParts),
      ...workloads.routes,
      ...joins.routes,
    ],
    bundles: { trusted: bundles, held: bundles.held },
    jwtIssuer: settings.jwtIssuer,
    adminCalls: mintCalls({ ...context, siteNames }),
    rpcs: [...joins.rpcs, ...channel.rpcs],
    agents: joins.agents,
    guards: joins.guards,
    ...(web && { webCertificate: web.certificate }),
    health: new Map([
      ['clock', () => rotation.clockDoubt()],
      ...workloads.health,
      ...(web?.health ?? []),
    ]),
    endpoints: {
      workload: {
        address: workloads.endpoints.workload,
        hint: `export SPIFFE_ENDPOINT_SOCKET=unix://${workloads.endpoints.workload}`,
      },
    },
    admit: (kind, next, live, warn) => {
      if (kind === spiffeFederationKind) {
        const room = live === undefined ? limit.admit(next.metadata.name, warn) : [];
        admitFederation(next, authority.bundle, clock.now(), live);
        return room;
      }
      if (kind === workloadEntryKind) admitNames(next, siteNames, live);
      if (kind === joinTokenKind) admitToken(next);
      return [...workloads.admit(kind, next, live, warn), ...agents.admit(kind, next, live, warn)];
    },
    admitDeletion: agents.admitDeletion,
    accompany: agents.accompany,
    stop: () => {
      agents.stop();
      unpublish();
      channel.stop();
      identities.stop();
      web?.stop();
      return workloads.stop();
    },
  };
}

/** DNS names in the site's certificate, for clients that do not speak SPIFFE. */
function namesOf({ chain: [leaf] }: { readonly chain: readonly Buffer[] }): readonly string[] {
  const { subjectAlternativeName } = Certificate.parse(leaf as Buffer).extensions;
  return subjectAlternativeName?.dnsNames ?? [];
}

/** Publishes at once after a change of the authorities, because peers are notified of published bundles. */
async function publish(publisher: BundlePublisher, log: Log): Promise<void> {
  try {
    await publisher.current();
  } catch (error) {
    // The rotation controller retries.
    log.error('cannot publish the bundle of this site', { error });
  }
}

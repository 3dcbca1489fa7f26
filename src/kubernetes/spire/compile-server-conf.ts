// Compiles the configuration file of a SPIRE server. It is JSON, which SPIRE reads as HCL: values are always
// strings or numbers in it, so that no name and no URL can add a setting. Relationships with other trust domains
// are not in the file: SPIRE takes them while it runs, and a new one must not restart it. Pure.

import { createHash } from 'node:crypto';
import { spireServerPorts } from '../../api/kinds/spire-federation.ts';
import type { JsonObject } from '../../api/object.ts';
import type { SpireServerSpec } from './read-spire-server.ts';

/** Paths in the container of the SPIRE server. */
export const spirePaths = {
  data: '/run/spire/data',
  socketFolder: '/run/spire/private',
  socket: '/run/spire/private/api.sock',
  certificates: '/run/spire/federation-certs',
} as const;

export interface ServerConf {
  readonly text: string;
  /** Pods restart when it changes. */
  readonly hash: string;
}

/** `namespace` is that of the server and of its agents. */
export function compileServerConf(spec: SpireServerSpec, namespace: string): ServerConf {
  const text = `${JSON.stringify(confOf(spec, namespace), undefined, 2)}\n`;
  return { text, hash: createHash('sha256').update(text).digest('hex') };
}

function confOf(spec: SpireServerSpec, namespace: string): JsonObject {
  return {
    server: serverOf(spec),
    plugins: {
      DataStore: [{ sql: { plugin_data: datastoreOf(spec) } }],
      KeyManager: [keyManagerOf(spec)],
      NodeAttestor: (spec.nodeAttestors ?? ['k8s_psat']).map((method) =>
        method === 'join_token'
          ? { join_token: { plugin_data: {} } }
          : { k8s_psat: { plugin_data: { clusters: [psatOf(spec, namespace)] } } },
      ),
      Notifier: [
        {
          k8sbundle: {
            plugin_data: { namespace, config_map: spec.bundleConfigMap },
          },
        },
      ],
    },
    health_checks: {
      listener_enabled: true,
      bind_address: '0.0.0.0',
      bind_port: String(spireServerPorts.health),
      live_path: '/live',
      ready_path: '/ready',
    },
    telemetry: { Prometheus: { host: '0.0.0.0', port: spireServerPorts.metrics } },
  };
}

function serverOf(spec: SpireServerSpec): JsonObject {
  const { caSubject, jwtIssuer, jwtKeyType, federation } = spec;
  return {
    trust_domain: spec.trustDomain,
    bind_address: '0.0.0.0',
    bind_port: String(spireServerPorts.server),
    socket_path: spirePaths.socket,
    data_dir: spirePaths.data,
    log_level: spec.logLevel,
    log_format: spec.logFormat,
    ca_ttl: spec.caValidity,
    default_x509_svid_ttl: spec.defaultX509Validity,
    default_jwt_svid_ttl: spec.defaultJWTValidity,
    ca_key_type: spec.caKeyType,
    ...(jwtKeyType !== undefined && { jwt_key_type: jwtKeyType }),
    ...(jwtIssuer !== undefined && { jwt_issuer: jwtIssuer }),
    ...(caSubject !== undefined && {
      ca_subject: [
        {
          ...(caSubject.country !== undefined && { country: [caSubject.country] }),
          ...(caSubject.organization !== undefined && { organization: [caSubject.organization] }),
          ...(caSubject.commonName !== undefined && { common_name: caSubject.commonName }),
        },
      ],
    }),
    ...(federation !== undefined &&
      federation.enabled && {
        federation: { bundle_endpoint: [endpointOf(federation)] },
      }),
  };
}

function endpointOf({ bundleEndpoint }: NonNullable<SpireServerSpec['federation']>): JsonObject {
  const { address, port, refreshHint, profile } = bundleEndpoint;
  return {
    address,
    port,
    refresh_hint: `${refreshHint}s`,
    profile: [profile === 'https_web' ? webProfile(bundleEndpoint.httpsWeb) : { https_spiffe: {} }],
  };
}

type HttpsWeb = NonNullable<SpireServerSpec['federation']>['bundleEndpoint']['httpsWeb'];

function webProfile(web: HttpsWeb): JsonObject {
  if (web?.acme !== undefined) {
    const { directoryUrl, domainName, email, tosAccepted } = web.acme;
    const acme = {
      directory_url: directoryUrl,
      domain_name: domainName,
      email,
      tos_accepted: tosAccepted,
    };
    return { https_web: [{ acme }] };
  }
  const serving_cert_file = {
    cert_file_path: `${spirePaths.certificates}/tls.crt`,
    key_file_path: `${spirePaths.certificates}/tls.key`,
    file_sync_interval: `${web?.servingCert?.fileSyncInterval ?? 300}s`,
  };
  return { https_web: [{ serving_cert_file }] };
}

function datastoreOf({ datastore }: SpireServerSpec): JsonObject {
  return {
    database_type: datastore?.databaseType ?? 'sqlite3',
    connection_string: datastore?.connectionString ?? `${spirePaths.data}/datastore.sqlite3`,
    ...(datastore !== undefined && {
      max_open_conns: datastore.maxOpenConns,
      max_idle_conns: datastore.maxIdleConns,
    }),
  };
}

function keyManagerOf({ keyManager }: SpireServerSpec): JsonObject {
  return keyManager === 'memory'
    ? { memory: { plugin_data: {} } }
    : { disk: { plugin_data: { keys_path: `${spirePaths.data}/keys.json` } } };
}

/** Agents run as the ServiceAccount spire-agent in the namespace of the server. */
function psatOf({ clusterName }: SpireServerSpec, namespace: string): JsonObject {
  return {
    [clusterName]: {
      service_account_allow_list: [`${namespace}:spire-agent`],
      audience: ['spire-server'],
    },
  };
}

/** Of a server.conf that this file compiled. Undefined for other texts. */
export function trustDomainIn(text: string | undefined): string | undefined {
  try {
    const { server } = JSON.parse(text ?? '') as {
      readonly server?: { readonly trust_domain?: unknown };
    };
    return typeof server?.trust_domain === 'string' ? server.trust_domain : undefined;
  } catch {
    return undefined;
  }
}

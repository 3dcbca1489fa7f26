// The kind Cluster: a Kubernetes cluster whose ServiceAccount tokens this site reviews.

import { defineKind, type ResourceOf } from '../kind.ts';
import { optional, required, s } from '../schema/dsl.ts';
import { conditions } from './conditions.ts';
import { syncedKindNames } from './synced-kinds.ts';

export type Cluster = ResourceOf<typeof clusterKind>;

const httpsURL = '^https://[^\\s/?#@]+(/[^\\s?#]*)?$';

/** A path below the folder of the setting `auth.credentialsDir`, as the plane checks again when it reads. */
const fileBelow = (description: string) =>
  s.string({
    description: `${description} A path below the folder that the setting auth.credentialsDir names, without "..".`,
    minLength: 1,
    maxLength: 1024,
    pattern: '^[A-Za-z0-9_][A-Za-z0-9._-]*(/[A-Za-z0-9_][A-Za-z0-9._-]*)*$',
    hint: 'write a relative path, such as app1/token',
  });

const audience = s.string({ description: 'One audience.', minLength: 1, maxLength: 1024 });

const count = (description: string) => s.integer({ description, format: 'int32', minimum: 0 });

const spireMark = s.object({
  description:
    'Marks the cluster: the site operates its SPIRE server as the SpireServer there says, if the setting kubernetes.spire.enabled is true. Without this field, a SpireServer in the cluster has no effect. If it is removed, the SPIRE server and its objects stay as they are.',
  fields: {
    namespace: optional(
      s.string({
        description: 'The namespace of the SPIRE server.',
        maxLength: 63,
        pattern: '^[a-z0-9]([-a-z0-9]*[a-z0-9])?$',
        default: 'spire',
      }),
    ),
    className: optional(
      s.string({
        description:
          'The site acts on a SpireServer and on ClusterFederatedTrustDomains of this class only. Empty: on those without a class.',
        maxLength: 253,
        default: '',
      }),
    ),
    trustDomain: optional(
      s.string({
        description:
          'The trust domain of the SPIRE server, for a CRD of another operator that has no such field.',
        minLength: 1,
        maxLength: 255,
        pattern: '^[a-z0-9._-]{1,255}$',
      }),
    ),
    clusterName: optional(
      s.string({
        description:
          'The name of the cluster in node attestation, for a CRD of another operator that has no such field.',
        minLength: 1,
        maxLength: 63,
        pattern: '^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$',
      }),
    ),
    maxFederatedClusters: optional(
      s.integer({
        description:
          'How many trust domains the server may federate with. The CRD in the cluster has the same limit.',
        format: 'int32',
        minimum: 1,
        maximum: 1000,
        default: 50,
      }),
    ),
    relationships: optional(
      s.string({
        description:
          'Who hands relationships to SPIRE. ControllerManager: spire-controller-manager, by ClusterFederatedTrustDomains. Sidecar: the sidecar of Hansa. Auto: ControllerManager where the cluster serves ClusterFederatedTrustDomains.',
        enum: ['Auto', 'ControllerManager', 'Sidecar'],
        default: 'Auto',
      }),
    ),
    bundlePeers: optional(
      s.list({
        description:
          'Peers whose sites may send bundles for the first contact with trust domains that federatesWith names without a bundle. Their word decides who those trust domains are. A bundle that SPIRE refreshed is never replaced.',
        listType: 'set',
        maxItems: 64,
        items: s.string({
          description: 'The trust domain of a peer.',
          minLength: 1,
          maxLength: 255,
          pattern: '^[a-z0-9._-]+$',
        }),
      }),
    ),
  },
});

const credentialSources = ['tokenFile', 'clientCertificate', 'inCluster', 'jwtSVID'] as const;

export const clusterKind = defineKind({
  kind: 'Cluster',
  plural: 'clusters',
  singular: 'cluster',
  shortNames: [],
  description:
    'A Kubernetes cluster whose ServiceAccount tokens this site reviews. The name is part of the host name of its TokenReview endpoint. Deleting the object ends reviews of its tokens at once, and deletes its stored credential.',
  names: 'dns-label',
  reservedNames: ['api'],
  auditName: 'cluster',
  specRequired: true,
  spec: s.object({
    description: 'How to reach the cluster and how to review its tokens.',
    fields: {
      issuer: required(
        s.string({
          description:
            'The issuer of its ServiceAccount tokens: the first --service-account-issuer of its API server. Clusters may share an issuer.',
          minLength: 1,
          maxLength: 2048,
          pattern: '^[^\\s]+$',
        }),
      ),
      apiServer: optional(
        s.string({
          description:
            'The https URL of its API server. Required, unless the cluster is one of a peer, or the keys of the issuer can be fetched from the issuer itself and mode is jwks.',
          maxLength: 2048,
          pattern: httpsURL,
          hint: 'write an https URL, such as https://app1.example:6443',
        }),
      ),
      peer: optional(
        s.object({
          description:
            'The cluster is one of a peer. Its keys come from the site of the peer, which must grant the cluster to this site with the scope read. Mode jwks is the default; in the others, the site asks that of the peer. Every review must name an audience, and all users and groups get the prefix CLUSTER.TRUST-DOMAIN and a colon.',
          fields: {
            trustDomain: required(
              s.string({
                description: 'The trust domain of the peer.',
                minLength: 1,
                maxLength: 255,
                pattern: '^[a-z0-9._-]+$',
              }),
            ),
            cluster: required(
              s.string({
                description: 'The name of the Cluster at the peer.',
                minLength: 1,
                maxLength: 63,
                pattern: '^[a-z0-9]([-a-z0-9]*[a-z0-9])?$',
              }),
            ),
          },
        }),
      ),
      caFile: optional(
        fileBelow('A file with the PEM certificates of the CA that signs the API server.'),
      ),
      caBundle: optional(
        s.string({
          description: 'The PEM certificates of the CA that signs the API server.',
          minLength: 1,
          maxLength: 131_072,
        }),
      ),
      tlsServerName: optional(
        s.string({
          description:
            'The name in the certificate of the API server, if it differs from the host of apiServer.',
          minLength: 1,
          maxLength: 253,
          pattern: '^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$',
        }),
      ),
      proxyURL: optional(
        s.string({
          description: 'An HTTP proxy through which the site reaches the API server.',
          maxLength: 2048,
          pattern: '^https?://[^\\s/?#@]+/?$',
        }),
      ),
      local: optional(
        s.boolean({
          description:
            'Whether this is the local cluster, which the host name without a cluster name means. At most one cluster is.',
          default: false,
        }),
      ),
      sharesKeys: optional(
        s.boolean({
          description:
            'Whether you vouch for all keys that the cluster publishes: it may sign with a key of another registered cluster, and need not prove its keys. Without it, the site sends an API server only tokens of keys with which the cluster signed a token for this site, and does not use a key that a cluster with another API server proved, or published first.',
        }),
      ),
      credential: optional(
        s.object({
          description:
            'How the site authenticates to the API server. Without a source, the site uses the credential that `hansa cluster credential set` stored.',
          fields: {
            tokenFile: optional(
              fileBelow('A file with a bearer token. The site reads it again after a change.'),
            ),
            clientCertificate: optional(
              s.object({
                description: 'A client certificate.',
                fields: {
                  certFile: required(fileBelow('The certificate chain in PEM.')),
                  keyFile: required(fileBelow('The private key in PEM.')),
                },
              }),
            ),
            inCluster: optional(
              s.boolean({
                description:
                  'The credential that Kubernetes mounts into the pod of the site. Only for the API server of the cluster that the site runs in.',
                default: false,
              }),
            ),
            jwtSVID: optional(
              s.object({
                description:
                  'A short-lived JWT-SVID of the site itself. The API server must trust the OIDC issuer of the site (`hansa cluster auth-config`).',
                fields: {
                  audience: required(audience),
                },
              }),
            ),
            renew: optional(
              s.object({
                description:
                  'The site renews the token by TokenRequest and keeps the new one sealed. Always on for stored tokens; for tokenFile only if set.',
                fields: {
                  intervalSeconds: optional(
                    s.integer({
                      description: 'How often the site checks whether a renewal is due.',
                      format: 'int32',
                      minimum: 10,
                      maximum: 86_400,
                      default: 3600,
                    }),
                  ),
                  durationSeconds: optional(
                    s.integer({
                      description: 'The lifetime of a new token.',
                      format: 'int32',
                      minimum: 600,
                      maximum: 31_536_000,
                      default: 604_800,
                    }),
                  ),
                  renewBeforeSeconds: optional(
                    s.integer({
                      description: 'How long before its expiry a token is renewed.',
                      format: 'int32',
                      minimum: 60,
                      maximum: 31_536_000,
                      default: 172_800,
                    }),
                  ),
                },
              }),
            ),
          },
          rules: [
            {
              cel: '[has(self.tokenFile), has(self.clientCertificate), has(self.inCluster) && self.inCluster, has(self.jwtSVID)].filter(x, x).size() <= 1',
              message:
                'at most one of tokenFile, clientCertificate, inCluster and jwtSVID may be set',
              holds: (
                value: Readonly<Partial<Record<(typeof credentialSources)[number], unknown>>>,
              ) =>
                credentialSources.filter(
                  (source) => value[source] !== undefined && value[source] !== false,
                ).length <= 1,
            },
          ],
        }),
      ),
      apiAudiences: optional(
        s.list({
          description:
            'The audiences of the API server (--api-audiences), which a review without audiences means. Default: the issuer.',
          listType: 'set',
          minItems: 1,
          maxItems: 16,
          items: audience,
        }),
      ),
      validation: optional(
        s.object({
          description: 'How tokens are reviewed.',
          fields: {
            mode: optional(
              s.string({
                description:
                  'jwks: by signature and claims only, so deleted Pods and ServiceAccounts go unnoticed until the token expires. tokenreview: every review is forwarded to the API server after the signature was checked. hybrid: as tokenreview, but a positive answer counts for maxRevocationLagSeconds and for all audiences of the token. Default: hybrid with apiServer, jwks without.',
                enum: ['jwks', 'tokenreview', 'hybrid'],
              }),
            ),
            maxRevocationLagSeconds: optional(
              s.integer({
                description:
                  'How old a positive answer of the API server may be where it is reused: in mode hybrid, and in mode tokenreview with onUnreachable: allowUntilLag. 0: every review is forwarded. The API server adds its own cache, 10 seconds by default.',
                format: 'int32',
                minimum: 0,
                maximum: 3600,
                default: 10,
              }),
            ),
            onUnreachable: optional(
              s.string({
                description:
                  'In mode tokenreview, what a review answers while the API server cannot be reached. unavailable: HTTP 503. allowUntilLag: a token that the API server accepted at most maxRevocationLagSeconds ago is still accepted; others get HTTP 503. Mode hybrid accepts such a token in any case.',
                enum: ['unavailable', 'allowUntilLag'],
                default: 'unavailable',
              }),
            ),
          },
        }),
      ),
      callers: optional(
        s.object({
          description: 'Who asks for reviews, beyond what roles say.',
          fields: {
            acceptAPIServerAudience: optional(
              s.boolean({
                description:
                  'Whether ServiceAccounts of this cluster may call the TokenReview endpoint with tokens for the audience of their API server, which stock clients send. Otherwise only tokens for the audience of this site count. The API server of the cluster accepts such tokens too, so this site could use them there.',
                default: false,
              }),
            ),
            webhookAuthenticators: optional(
              s.list({
                description:
                  'Callers that use the answers to authenticate requests, such as an API server with --authentication-token-webhook-config-file. In answers about this cluster they get every username, uid, group and key of extra with the prefix, so that no cluster can grant rights in another. They may not ask about clusters that give them no prefix.',
                listType: 'map',
                keys: ['caller'],
                maxItems: 64,
                items: s.object({
                  description: 'One caller.',
                  fields: {
                    caller: required(
                      s.string({
                        description:
                          'The user name of the caller at this site, such as token:app2-apiserver.',
                        minLength: 1,
                        maxLength: 512,
                      }),
                    ),
                    prefix: required(
                      s.string({
                        description: 'The prefix, such as "app1:". It ends with a colon.',
                        minLength: 2,
                        maxLength: 64,
                        pattern: '^[a-z0-9][-a-z0-9.]*:$',
                      }),
                    ),
                  },
                }),
              }),
            ),
          },
        }),
      ),
      sync: optional(
        s.object({
          description:
            'Marks the cluster: the site takes over objects of these kinds from it, and writes their status back. The site does so as the user cluster:NAME, which needs a RoleBinding. Without this field, such objects in the cluster have no effect. If it is removed, objects at the site stay.',
          fields: {
            kinds: required(
              s.list({
                description: 'The kinds, such as SPIFFEFederation.',
                listType: 'set',
                minItems: 1,
                maxItems: syncedKindNames.length,
                items: s.string({ description: 'One kind.', enum: syncedKindNames }),
              }),
            ),
          },
        }),
      ),
      spire: optional(spireMark),
    },
    rules: [
      {
        cel: '!(has(self.caFile) && has(self.caBundle))',
        message: 'caFile and caBundle exclude each other',
        holds: (value: { readonly caFile?: unknown; readonly caBundle?: unknown }) =>
          value.caFile === undefined || value.caBundle === undefined,
      },
      {
        cel: '!has(self.sync) || has(self.apiServer)',
        message: 'sync needs apiServer',
        holds: (value: { readonly sync?: unknown; readonly apiServer?: unknown }) =>
          value.sync === undefined || value.apiServer !== undefined,
      },
      {
        cel: '!has(self.spire) || has(self.apiServer)',
        message: 'spire needs apiServer',
        holds: (value: { readonly spire?: unknown; readonly apiServer?: unknown }) =>
          value.spire === undefined || value.apiServer !== undefined,
      },
    ],
  }),
  status: s.object({
    description: 'The observed state of the cluster.',
    fields: {
      mode: optional(s.string({ description: 'The mode in effect.', maxLength: 16 })),
      host: optional(
        s.string({ description: 'The host name of its TokenReview endpoint.', maxLength: 253 }),
      ),
      keys: optional(
        s.integer({
          description: 'Number of keys that verify its tokens.',
          format: 'int32',
          minimum: 0,
        }),
      ),
      keysFetchedAt: optional(s.time({ description: 'When the site last fetched the keys.' })),
      credentialExpiresAt: optional(
        s.time({ description: 'When the credential for the API server expires.' }),
      ),
      sync: optional(
        s.object({
          description: 'Objects that the site takes over from the cluster.',
          fields: {
            accepted: required(count('Objects of the cluster that the site has.')),
            refused: required(
              count('Objects of the cluster that the site refuses. Their status says why.'),
            ),
            kept: required(
              count('Objects at the site that came from the cluster and are not there any more.'),
            ),
          },
        }),
      ),
      conditions: optional(conditions),
    },
  }),
  // They change with every fetch and renewal, and change no state.
  liveStatus: ['keys', 'keysFetchedAt', 'credentialExpiresAt'],
  columns: [
    {
      name: 'Mode',
      type: 'string',
      jsonPath: '.status.mode',
      description: 'How tokens are reviewed.',
    },
    {
      name: 'Ready',
      type: 'string',
      jsonPath: '.status.conditions[?(@.type=="Ready")].status',
      description: 'Whether the site can review tokens of the cluster.',
    },
    {
      name: 'Keys',
      type: 'integer',
      jsonPath: '.status.keys',
      description: 'Number of keys that verify its tokens.',
    },
    {
      name: 'Fetched',
      type: 'date',
      jsonPath: '.status.keysFetchedAt',
      description: 'Time since the site fetched the keys.',
    },
    {
      name: 'Credential-Expires',
      type: 'date',
      jsonPath: '.status.credentialExpiresAt',
      description: 'Time until the credential for the API server expires.',
      counts: 'down',
    },
    {
      name: 'API-Server',
      type: 'string',
      jsonPath: '.spec.apiServer',
      description: 'The URL of its API server.',
      priority: 1,
    },
    {
      name: 'Issuer',
      type: 'string',
      jsonPath: '.spec.issuer',
      description: 'The issuer of its tokens.',
      priority: 1,
    },
    {
      name: 'Why',
      type: 'string',
      jsonPath: '.status.conditions[?(@.type=="Ready")].message',
      description: 'Why it is in this state, and what to do.',
      priority: 1,
    },
  ],
});

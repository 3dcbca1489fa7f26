// The kind SpireServer, in clusters: a SPIRE server and its federation with other trust domains. Its group is
// that of the operator that defined it first. Hansa installs this CRD only where the cluster has none.

import { defineKind, type ResourceOf } from '../kind.ts';
import { optional, required, s } from '../schema/dsl.ts';
import { conditions } from './conditions.ts';
import { federationSchema, type FederationSpec } from './spire-federation.ts';

export type SpireServer = ResourceOf<ReturnType<typeof spireServerKind>>;

export const spireGroup = 'operator.openshift.io';
/** The only name: a cluster has one SPIRE server. */
export const spireServerName = 'cluster';
/** How many trust domains a server federates with, unless MAX_FEDERATED_CLUSTERS says otherwise. */
export const defaultMaxFederatedClusters = 50;

const goDuration = (description: string, value: string) =>
  s.string({
    description,
    default: value,
    maxLength: 32,
    // Go cannot read a longer number of hours.
    pattern: '^([0-9]{1,5}(h|m|s))+$',
  });

const keyTypes = ['rsa-2048', 'rsa-4096', 'ec-p256', 'ec-p384'] as const;

/** The schema holds `maxFederatedClusters`, so that the API server refuses more. */
export function spireServerKind(maxFederatedClusters: number = defaultMaxFederatedClusters) {
  return defineKind({
    kind: 'SpireServer',
    cluster: { group: spireGroup, scope: 'Cluster' },
    singleton: spireServerName,
    plural: 'spireservers',
    singular: 'spireserver',
    shortNames: [],
    description:
      'The SPIRE server of a cluster. With `federation`, it serves its trust bundle to other clusters and fetches theirs.',
    names: 'dns-subdomain',
    specRequired: true,
    spec: specSchema(maxFederatedClusters),
    status: statusSchema,
    columns: [
      {
        name: 'Trust-Domain',
        type: 'string',
        jsonPath: '.spec.trustDomain',
        description: 'The trust domain of the server.',
      },
      {
        name: 'Valid',
        type: 'string',
        jsonPath: '.status.conditions[?(@.type=="FederationConfigurationValid")].status',
        description: 'Whether the federation can be configured.',
      },
      {
        name: 'Route',
        type: 'string',
        jsonPath: '.status.conditions[?(@.type=="FederationRouteReady")].status',
        description: 'Whether other clusters reach the bundle endpoint.',
      },
    ],
  });
}

/** The words of the rule. */
export const selfFederation =
  'federation.federatesWith: a trust domain cannot federate with itself';

interface RuledSpec {
  readonly trustDomain?: unknown;
  readonly federation?: FederationSpec;
}

function specSchema(maxFederatedClusters: number) {
  return s.object({
    description: 'What the SPIRE server is, and with which trust domains it federates.',
    fields: {
      trustDomain: required(
        s.string({
          description:
            'The trust domain of the server. Changing it means to federate from scratch.',
          minLength: 1,
          maxLength: 255,
          pattern: '^[a-z0-9._-]{1,255}$',
        }),
      ),
      clusterName: required(
        s.string({
          description: 'The name of the cluster in node attestation.',
          minLength: 1,
          maxLength: 63,
          pattern: '^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$',
        }),
      ),
      className: optional(
        s.string({
          description:
            'Which operator acts on this object. Hansa acts on it only if its own setting names the same class.',
          maxLength: 253,
        }),
      ),
      createOnly: optional(
        s.boolean({
          description:
            'Create objects that are missing, and change none. Differences are reported in conditions.',
          default: false,
        }),
      ),
      bundleConfigMap: optional(
        s.string({
          description: 'The ConfigMap that SPIRE writes its trust bundle to, for agents.',
          default: 'spire-bundle',
          maxLength: 253,
          pattern: '^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$',
        }),
      ),
      logLevel: optional(
        s.string({
          description: 'How much the server logs.',
          enum: ['debug', 'info', 'warn', 'error'],
          default: 'info',
        }),
      ),
      logFormat: optional(
        s.string({
          description: 'The format of the log.',
          enum: ['text', 'json'],
          default: 'text',
        }),
      ),
      jwtIssuer: optional(
        s.string({
          description: 'The issuer in JWT-SVIDs: an http or https URL.',
          maxLength: 512,
          pattern: '^https?://[^\\s?#]+$',
        }),
      ),
      caValidity: optional(
        goDuration('How long an X.509 authority of the server is valid.', '24h'),
      ),
      defaultX509Validity: optional(goDuration('How long an X.509-SVID is valid.', '1h')),
      defaultJWTValidity: optional(goDuration('How long a JWT-SVID is valid.', '5m')),
      caKeyType: optional(
        s.string({
          description: 'The type of the keys of the authorities.',
          enum: keyTypes,
          default: 'ec-p256',
        }),
      ),
      jwtKeyType: optional(
        s.string({ description: 'The type of the keys for JWT-SVIDs.', enum: keyTypes }),
      ),
      caSubject: optional(caSubject),
      keyManager: optional(
        s.string({
          description: 'Where SPIRE keeps its private keys.',
          enum: ['disk', 'memory'],
          default: 'disk',
        }),
      ),
      nodeAttestors: optional(
        s.list({
          description: 'How agents prove who they are.',
          listType: 'set',
          // SPIRE does not start without one.
          minItems: 1,
          maxItems: 2,
          items: s.string({ description: 'A method.', enum: ['k8s_psat', 'join_token'] }),
        }),
      ),
      datastore: optional(datastore),
      persistence: optional(persistence),
      federation: optional(federationSchema(maxFederatedClusters)),
    },
    rules: [
      {
        cel: '!has(self.federation) || !has(self.federation.federatesWith) || self.federation.federatesWith.all(other, other.trustDomain != self.trustDomain)',
        message: selfFederation,
        holds: ({ trustDomain, federation }: RuledSpec) =>
          (federation?.federatesWith ?? []).every((other) => other.trustDomain !== trustDomain),
      },
    ],
  });
}

const subjectPart = (description: string, maxLength: number) =>
  s.string({ description, maxLength, minLength: 1 });

const caSubject = s.object({
  description: 'The subject of the authorities of the server.',
  fields: {
    country: optional(subjectPart('Two letters, as in ISO 3166.', 2)),
    organization: optional(subjectPart('The organization.', 64)),
    commonName: optional(subjectPart('The common name.', 255)),
  },
});

const datastore = s.object({
  description: 'The database of the server.',
  fields: {
    databaseType: optional(
      s.string({
        description: 'Its type.',
        enum: ['sqlite3', 'postgres', 'mysql', 'aws_postgresql', 'aws_mysql'],
        default: 'sqlite3',
      }),
    ),
    connectionString: optional(
      s.string({
        description:
          'How SPIRE connects. Everybody who reads the ConfigMap sees it: name files or variables in it, and no password.',
        minLength: 1,
        maxLength: 2048,
        default: '/run/spire/data/datastore.sqlite3',
      }),
    ),
    maxOpenConns: optional(
      s.integer({
        description: 'The most open connections.',
        format: 'int32',
        minimum: 1,
        maximum: 10_000,
        default: 100,
      }),
    ),
    maxIdleConns: optional(
      s.integer({
        description: 'The most idle connections.',
        format: 'int32',
        minimum: 0,
        maximum: 10_000,
        default: 2,
      }),
    ),
  },
});

const persistence = s.object({
  description: 'The volume of the server.',
  fields: {
    size: optional(
      s.string({
        description: 'Its size, such as 1Gi.',
        pattern: '^[1-9][0-9]*(Mi|Gi)$',
        maxLength: 16,
        default: '1Gi',
      }),
    ),
    accessMode: optional(
      s.string({
        description: 'Who may mount it.',
        enum: ['ReadWriteOnce', 'ReadWriteOncePod', 'ReadWriteMany'],
        default: 'ReadWriteOnce',
      }),
    ),
    storageClass: optional(s.string({ description: 'Its class.', maxLength: 253 })),
  },
});

const statusSchema = s.object({
  description: 'What Hansa sees of the server and of its relationships.',
  fields: {
    conditions: optional(conditions),
    relationships: optional(
      s.list({
        description: 'The trust domains that the server federates with.',
        listType: 'map',
        keys: ['trustDomain'],
        maxItems: 1000,
        items: s.object({
          description: 'One relationship.',
          fields: {
            trustDomain: required(
              s.string({ description: 'The other trust domain.', maxLength: 255 }),
            ),
            state: required(
              s.string({
                description:
                  'Pending: not at the server yet. Bootstrapping: no bundle yet. Fresh, or Stale: not refreshed for too long. Failed: see the message.',
                enum: ['Pending', 'Bootstrapping', 'Fresh', 'Stale', 'Failed'],
              }),
            ),
            since: required(s.time({ description: 'When it entered this state.' })),
            lastRefresh: optional(s.time({ description: 'When SPIRE last had a new bundle.' })),
            reason: optional(s.string({ description: 'Why, in one word.', maxLength: 128 })),
            message: optional(s.string({ description: 'Why, and what to do.', maxLength: 4096 })),
          },
        }),
      }),
    ),
  },
});

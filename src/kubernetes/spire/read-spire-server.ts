// Reads a SpireServer as a cluster stores it: by our CRD, or by the CRD of another operator, which has some
// fields in another form and lacks others. Never throws. Pure.

import {
  selfFederation,
  type SpireServer,
  spireServerKind,
  spireServerName,
} from '../../api/kinds/spire-server.ts';
import { isObject } from '../../api/schema/json.ts';
import { applyDefaults } from '../../api/schema/default.ts';
import { wholeObject } from '../../api/schema/field-error.ts';
import { prune } from '../../api/schema/prune.ts';
import { validateRest, validateStructure } from '../../api/schema/validate.ts';
import {
  type HeldRelationship,
  parseRelationship,
  spireServerOrigin,
} from '../spire-relationships/parse-relationship.ts';

export type SpireServerSpec = SpireServer['spec'];

/** Values that the CRD of another operator has no field for. */
export interface SpireDefaults {
  readonly trustDomain?: string | undefined;
  readonly clusterName?: string | undefined;
  readonly maxFederatedClusters?: number | undefined;
}

export interface ReadSpec {
  readonly spec: SpireServerSpec;
  /** Why entries of `federatesWith` are not in `spec`. Each names its field. */
  readonly problems: readonly string[];
  /** The trust domains that these entries name. */
  readonly held: readonly HeldRelationship[];
}

export type ReadSpireServer =
  | ReadSpec
  /** Nothing of it can be used. Never empty. */
  | { readonly spec?: undefined; readonly problems: readonly string[] };

type Fields = Readonly<Record<string, unknown>>;

export function readSpireServer(object: unknown, defaults: SpireDefaults = {}): ReadSpireServer {
  const { metadata, spec } = fieldsOf(object);
  const name = fieldsOf(metadata)['name'];
  if (name !== spireServerName) {
    return {
      problems: [`metadata.name: a cluster has one SpireServer, with the name ${spireServerName}`],
    };
  }
  const schema = spireServerKind(defaults.maxFederatedClusters).spec;
  const { value } = prune(schema, ownForm(fieldsOf(spec), defaults));
  const filled = fieldsOf(applyDefaults(schema, value));
  // An entry that cannot be used does not take the others with it.
  const { federation } = filled;
  const entries = fieldsOf(federation)['federatesWith'];
  const judged = Array.isArray(entries) ? judgeEntries(entries, filled['trustDomain']) : none;
  const usable =
    isObject(federation) && judged.problems.length > 0
      ? { ...filled, federation: { ...federation, federatesWith: judged.usable } }
      : filled;
  const errors = validateStructure(schema, usable);
  validateRest(schema, usable, undefined, errors);
  if (errors.length === 0) {
    const { problems, held } = judged;
    return { spec: usable as unknown as SpireServerSpec, problems, held };
  }
  const others = errors.map(
    ({ field, message }) => `${field === wholeObject ? 'spec' : `spec.${field}`}: ${message}`,
  );
  return { problems: [...judged.problems, ...others] };
}

/** The CRD of another operator has no field for the trust domain. */
export function adviceFor(problems: readonly string[], cluster: string): string {
  return problems.some((each) => /^spec\.(?:trustDomain|clusterName): Required/.test(each))
    ? ` If the CRD is of another operator and has no such field: hansa spire install ${cluster} --trust-domain NAME --cluster-name NAME --kubeconfig FILE.`
    : '';
}

interface JudgedEntries {
  readonly usable: readonly unknown[];
  readonly problems: readonly string[];
  readonly held: readonly HeldRelationship[];
}

const none: JudgedEntries = { usable: [], problems: [], held: [] };

function judgeEntries(entries: readonly unknown[], ownTrustDomain: unknown): JudgedEntries {
  const usable = new Map<string, unknown>();
  const held = new Map<string, HeldRelationship>();
  const problems: string[] = [];
  for (const [index, entry] of entries.entries()) {
    const path = `spec.federation.federatesWith[${index}]`;
    const parsed = parseRelationship(entry, { from: spireServerOrigin, path });
    if (parsed.relationship === undefined) {
      problems.push(parsed.problem);
      if (parsed.held !== undefined) held.set(parsed.held.trustDomain, parsed.held);
      continue;
    }
    const { trustDomain } = parsed.relationship;
    if (trustDomain === ownTrustDomain) {
      problems.push(`spec: Invalid value: ${selfFederation}`);
    } else if (usable.has(trustDomain)) {
      problems.push(`${path}: ${trustDomain} is there twice, and the first entry counts`);
    } else usable.set(trustDomain, entry);
  }
  return {
    usable: [...usable.values()],
    problems,
    held: [...held.values()].filter(({ trustDomain }) => !usable.has(trustDomain)),
  };
}

/** The fields of another operator in the form of ours. */
function ownForm(spec: Fields, { trustDomain, clusterName }: SpireDefaults): Fields {
  const { federation, keyManager, ...rest } = spec;
  return {
    ...(trustDomain !== undefined && { trustDomain }),
    ...(clusterName !== undefined && { clusterName }),
    ...rest,
    ...(keyManager !== undefined && { keyManager: keyManagerOf(keyManager) }),
    ...(federation !== undefined && { federation: federationOf(federation) }),
  };
}

/** That operator has two switches of text. */
function keyManagerOf(value: unknown): unknown {
  if (!isObject(value)) return value;
  return value['memoryEnabled'] === 'true' ? 'memory' : 'disk';
}

function federationOf(value: unknown): unknown {
  if (!isObject(value)) return value;
  const { managedRoute, bundleEndpoint, ...rest } = value;
  const isUnmanaged = managedRoute === 'false' && rest['exposure'] === undefined;
  return {
    ...rest,
    ...(isUnmanaged && { exposure: { type: 'None' } }),
    ...(bundleEndpoint !== undefined && { bundleEndpoint: endpointOf(bundleEndpoint) }),
  };
}

function endpointOf(value: unknown): unknown {
  const httpsWeb = fieldsOf(value)['httpsWeb'];
  if (!isObject(value) || !isObject(httpsWeb)) return value;
  const { acme, servingCert } = httpsWeb;
  return {
    ...value,
    httpsWeb: {
      ...httpsWeb,
      ...(isObject(acme) && { acme: { ...acme, tosAccepted: flagOf(acme['tosAccepted']) } }),
      ...(isObject(servingCert) && { servingCert: certOf(servingCert) }),
    },
  };
}

/** That operator writes booleans as text. */
function flagOf(value: unknown): unknown {
  return value === 'true' ? true : value === 'false' || value === undefined ? false : value;
}

/** The most that our schema allows; the other operator looks once a day. */
const longestSyncSeconds = 3600;

function certOf({ externalSecretRef, ...rest }: Fields): unknown {
  const { fileSyncInterval } = rest;
  return {
    ...rest,
    ...(rest['secretName'] === undefined &&
      externalSecretRef !== undefined && { secretName: externalSecretRef }),
    ...(externalSecretRef !== undefined &&
      typeof fileSyncInterval === 'number' && {
        fileSyncInterval: Math.min(fileSyncInterval, longestSyncSeconds),
      }),
  };
}

function fieldsOf(value: unknown): Fields {
  return isObject(value) ? value : {};
}

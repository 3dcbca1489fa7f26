// Admission rules for a Cluster that its schema cannot express. Values that are allowed but unwise get
// a warning. Pure.

import { type Cluster, clusterKind } from '../../api/kinds/cluster.ts';
import { group, type Resource } from '../../api/object.ts';
import { HansaError } from '../../core/errors/error.ts';
import { pemCertificates } from '../../core/identity/tls/web-transport.ts';
import type { Expectation } from '../../core/store/store.ts';
import { changesUse } from '../credentials/credential-use.ts';
import { findReusedCredential } from '../credentials/find-reused-credential.ts';
import { hostOfCluster } from '../routes/cluster-hosts.ts';
import { discoveryURL, modeOf, reusesAnswers } from './compile-cluster.ts';

type Spec = Cluster['spec'];

export interface AdmissionParts {
  readonly settings: {
    readonly baseDomain: string;
    readonly credentialsDir: string | undefined;
  };
  readonly trustDomain: string;
  /** The audience of ServiceAccount tokens that call this site. */
  readonly siteAudience: string;
  /** The name of the local cluster, and the expectation that it does not change before the commit. */
  readonly local: () => { readonly name: string | undefined; readonly expectation: Expectation };
  /** Names of other clusters that give this caller this prefix. */
  readonly othersWithPrefix: (name: string, caller: string, prefix: string) => readonly string[];
  /** Registered clusters. */
  readonly all: () => readonly Cluster[];
  /** That no other Cluster began to use a credential before the commit. */
  readonly use: () => Expectation;
}

/** RFC 1035 §2.3.4, without the root. */
const longestHostName = 253;
/** A longer lag needs a reason: Pods that were deleted keep their access for so long. */
const longLagSeconds = 300;

/** Throws HANSA_INVALID. Does not read a certificate again that `live` already has. */
export function admitCluster(
  cluster: Pick<Resource, 'metadata' | 'spec'>,
  live: Pick<Resource, 'spec'> | undefined,
  parts: AdmissionParts,
  warn: (text: string) => void,
): readonly Expectation[] {
  const { name } = cluster.metadata;
  const spec = cluster.spec as Spec;
  const before = live?.spec as Spec | undefined;
  const refuse = (field: string, why: string): never => {
    const message = `Invalid value: ${why}`;
    const { kind } = clusterKind;
    throw new HansaError(
      'HANSA_INVALID',
      `${kind}.${group} "${name}" is invalid: ${field}: ${message}`,
      { details: { group, kind, name, causes: [{ reason: 'FieldValueInvalid', message, field }] } },
    );
  };
  const host = hostOfCluster(parts.settings.baseDomain, name);
  if (host.length > longestHostName) {
    refuse(
      'metadata.name',
      `its host name ${host} would have ${host.length} characters, and the limit is ${longestHostName}`,
    );
  }
  if (spec.peer === undefined) checkServer(spec, before, refuse);
  else checkPeer(spec, parts.trustDomain, refuse);
  checkFiles(spec, parts.settings.credentialsDir, refuse);
  checkRenewal(spec, refuse);
  const reused = findReusedCredential({ metadata: { name }, spec }, parts.all());
  if (reused !== undefined) {
    refuse(
      reused.field,
      `cluster ${reused.cluster} uses ${JSON.stringify(reused.value)} for another API server, CA, server name or proxy; give each API server a credential of its own`,
    );
  }
  for (const [at, { prefix }] of (spec.callers?.webhookAuthenticators ?? []).entries()) {
    if (!prefix.startsWith('system:')) continue;
    refuse(
      `spec.callers.webhookAuthenticators[${at}].prefix`,
      'names that begin with system: belong to Kubernetes itself; write another prefix, such as the name of the cluster and a colon',
    );
  }
  for (const text of warningsOf(name, spec, parts)) warn(text);
  const expected = changesUse({ spec }, before && { spec: before }) ? [parts.use()] : [];
  if (!spec.local) return expected;
  const { name: other, expectation } = parts.local();
  if (other !== undefined && other !== name) {
    refuse('spec.local', `${other} is the local cluster; set local to false there first`);
  }
  return [...expected, expectation];
}

type Refuse = (field: string, why: string) => never;

function checkServer(spec: Spec, before: Spec | undefined, refuse: Refuse): void {
  const { apiServer, caBundle, issuer } = spec;
  if (apiServer !== undefined && !isServerURL(apiServer)) {
    refuse('spec.apiServer', 'it must be an https URL without user, password and query');
  }
  if (spec.proxyURL !== undefined && !URL.canParse(spec.proxyURL)) {
    refuse('spec.proxyURL', 'it must be a URL with a host and a port');
  }
  const mode = modeOf(spec);
  if (apiServer === undefined && mode !== 'jwks') {
    refuse('spec.validation.mode', `mode ${mode} asks the API server; set apiServer, or mode jwks`);
  }
  if (apiServer === undefined && discoveryURL(issuer) === undefined) {
    refuse(
      'spec.issuer',
      'without apiServer the site fetches the keys from the issuer, which must then be an https URL without user, query and fragment; set apiServer if it is not',
    );
  }
  if (apiServer === undefined && spec.caFile !== undefined) {
    refuse('spec.caFile', 'it is for the API server; for the CA of an issuer, use caBundle');
  }
  if (caBundle === undefined || caBundle === before?.caBundle) return;
  try {
    pemCertificates(caBundle);
  } catch (caught) {
    refuse('spec.caBundle', (caught as Error).message);
  }
}

/** How this site reaches a cluster of a peer, and what the cluster is here, is for the peer to say. */
const notOfPeers = [
  'apiServer',
  'caFile',
  'caBundle',
  'tlsServerName',
  'proxyURL',
  'credential',
  'apiAudiences',
  'sync',
  'spire',
] as const;

function checkPeer(spec: Spec, own: string, refuse: Refuse): void {
  const { peer, local, callers } = spec;
  if (peer?.trustDomain === own) {
    refuse('spec.peer.trustDomain', `${own} is this site; register the cluster itself`);
  }
  for (const field of notOfPeers) {
    if (spec[field] !== undefined)
      refuse(`spec.${field}`, 'a cluster of a peer has none; remove it');
  }
  if (local) refuse('spec.local', 'a cluster of a peer is not the local one; remove it');
  if (callers?.acceptAPIServerAudience === true) {
    refuse(
      'spec.callers.acceptAPIServerAudience',
      'ServiceAccounts of a cluster of a peer cannot call this site; remove it',
    );
  }
}

function checkFiles(spec: Spec, credentialsDir: string | undefined, refuse: Refuse): void {
  if (credentialsDir !== undefined) return;
  const { tokenFile, clientCertificate } = spec.credential ?? {};
  const files = {
    'spec.caFile': spec.caFile,
    'spec.credential.tokenFile': tokenFile,
    'spec.credential.clientCertificate': clientCertificate,
  };
  for (const [field, value] of Object.entries(files)) {
    if (value === undefined) continue;
    refuse(field, 'this site reads no files; start it with the setting auth.credentialsDir');
  }
}

function checkRenewal({ credential }: Spec, refuse: Refuse): void {
  const { renew } = credential ?? {};
  if (renew === undefined) return;
  const { durationSeconds, renewBeforeSeconds } = renew;
  if (renewBeforeSeconds >= durationSeconds) {
    refuse(
      'spec.credential.renew.renewBeforeSeconds',
      `${renewBeforeSeconds} is not less than durationSeconds (${durationSeconds}), so every token would be due for renewal at once; set a smaller value`,
    );
  }
}

function* warningsOf(name: string, spec: Spec, parts: AdmissionParts): Generator<string> {
  const { apiServer, credential, validation, callers, apiAudiences } = spec;
  // RFC 1035 §2.3.1, which Kubernetes applies to Services and to no other names.
  if (/^\d/.test(name)) {
    yield 'metadata.name: the name of a Service begins with a letter, so `hansa cluster services` cannot make the host name resolve in clusters';
  }
  if (apiServer === undefined) {
    for (const field of ['credential', 'tlsServerName', 'proxyURL'] as const) {
      if (spec[field] !== undefined) yield `spec.${field}: it has no effect without apiServer`;
    }
  }
  const { renew, tokenFile: _tokenFile, inCluster, ...sources } = credential ?? {};
  if (renew !== undefined && (inCluster === true || Object.keys(sources).length > 0)) {
    yield 'spec.credential.renew: it has no effect, because only tokens that are stored or come from tokenFile are renewed';
  }
  const lag = validation?.maxRevocationLagSeconds ?? 0;
  if (reusesAnswers(spec)) {
    if (lag > longLagSeconds) {
      yield `spec.validation.maxRevocationLagSeconds: tokens of deleted Pods and ServiceAccounts are accepted for up to ${lag} seconds`;
    }
    if (lag === 0 && validation?.onUnreachable === 'allowUntilLag') {
      yield 'spec.validation.onUnreachable: allowUntilLag has no effect with maxRevocationLagSeconds 0';
    }
  }
  if (callers?.acceptAPIServerAudience === true) {
    yield `spec.callers.acceptAPIServerAudience: Pods send this site tokens that the API server of ${name} accepts too; prefer tokens for the audience ${parts.siteAudience}`;
  }
  if (apiAudiences?.includes(parts.siteAudience) === true) {
    yield `spec.apiAudiences: ${parts.siteAudience} is the audience of this site, so every token for it is valid at the API server too`;
  }
  for (const { caller, prefix } of callers?.webhookAuthenticators ?? []) {
    const [other] = parts.othersWithPrefix(name, caller, prefix);
    if (other === undefined) continue;
    yield `spec.callers.webhookAuthenticators: ${caller} gets the prefix ${prefix} for cluster ${other} too, so it cannot tell their ServiceAccounts apart`;
  }
}

function isServerURL(text: string): boolean {
  if (!URL.canParse(text)) return false;
  const { protocol, username, password, search, hash } = new URL(text);
  return protocol === 'https:' && [username, password, search, hash].every((part) => part === '');
}

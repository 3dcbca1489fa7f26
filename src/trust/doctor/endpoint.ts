// The check of `hansa doctor --peer` for the bundle endpoint of a federation. The daemon calls the
// endpoint, with its own bundles and from its own network. This file turns the result into findings,
// each with a remedy.

import { isIP } from 'node:net';
import {
  peerLabel,
  type SPIFFEFederation,
  spiffeFederationKind,
} from '../../api/kinds/spiffe-federation.ts';
import { hasCode } from '../../core/errors/error.ts';
import {
  type Finding,
  ok,
  peerSubject,
  problem,
  type SubjectCheck,
  warning,
} from '../../core/plane/doctor.ts';
import type { SiteClient } from '../../core/plane/site-client.ts';
import type { Examination } from '../federation/examine-endpoint.ts';
import { federationRow } from '../trust-rows.ts';
import { pathTo } from '../../core/plane/path-to.ts';
import { trustPaths } from '../paths.ts';

export const endpointCheck: SubjectCheck = {
  subject: peerSubject,
  name: 'endpoint',
  follows: 'peer',
  what: 'SPIFFEFederation',
  listedBy: 'hansa trust status',
  run: async ({ client, clock }, name) => {
    const federation = await findFederation(client, name);
    if (federation === undefined) return undefined;
    const path = pathTo(trustPaths.examine, { name });
    const examination = (await client.request({ method: 'POST', path })).body as Examination;
    const isPeer = federation.metadata.labels?.[peerLabel] !== undefined;
    return [
      ...judgeExamination(examination, isPeer),
      judgeHeld(federation, clock.now(), examination.failure !== undefined),
    ];
  },
};

async function findFederation(
  client: SiteClient,
  name: string,
): Promise<SPIFFEFederation | undefined> {
  try {
    return (await client.get(spiffeFederationKind, name)) as SPIFFEFederation;
  } catch (error) {
    if (hasCode(error, 'HANSA_NOT_FOUND')) return undefined;
    throw error;
  }
}

/** The state of the held bundle. If `failed`, the findings above give the reason and the remedy. */
function judgeHeld(federation: SPIFFEFederation, nowMs: number, failed: boolean): Finding {
  const { state, since, why, next, todo } = federationRow(federation, nowMs);
  const asked = next === '' ? '' : `, next fetch ${next}`;
  if (state === 'fresh') return ok('held', `fresh${asked}`);
  const isWithheld = state === 'stale' || state === 'expired';
  const isDown = failed || federation.spec.quarantined || next === '';
  const text = `${state}${since === '' ? '' : `, for ${since}`}${asked}${failed ? '' : `: ${why}`}`;
  const meanwhile = isWithheld
    ? 'Workloads do not get the bundle: calls between the two sites fail.'
    : 'Workloads get the bundle until then.';
  const answers = `The endpoint answers now. The site fetches the bundle automatically, or at once with: hansa trust refresh ${federation.metadata.name} --wait`;
  const remedy = failed ? meanwhile : isDown ? capitalised(todo) : answers;
  return (isWithheld ? problem : warning)('held', text, remedy);
}

function capitalised(text: string): string {
  // A command keeps its lower-case first letter.
  return text.startsWith('hansa ') ? text : text.charAt(0).toUpperCase() + text.slice(1);
}

type Step = 'DNS' | 'TCP' | 'TLS' | 'bundle';

/** One finding per step, up to the step that failed. */
export function judgeExamination(examination: Examination, isPeer: boolean): Finding[] {
  const { url, failure, addresses, connected, presented, bundle } = examination;
  if (url === undefined) {
    return [ok('bundle', 'static: the spec contains it, and the site fetches nothing')];
  }
  const { hostname, port } = new URL(url);
  const host = hostname.replaceAll(/[[\]]/g, '');
  const where = (address: string): string =>
    `${address.includes(':') ? `[${address}]` : address}:${port || 443}`;
  const failed = failure && stepOf(examination);
  const findings: Finding[] = [];
  if (isIP(host) !== 0) findings.push(ok('DNS', `${host} is an address`));
  else if (addresses.length > 0) findings.push(ok('DNS', `${host} → ${addresses.join(', ')}`));
  if (connected !== undefined) {
    const { address, ms } = connected;
    findings.push(
      ok('TCP', `${where(address)} answers in ${ms < 10 ? ms.toFixed(1) : Math.round(ms)} ms`),
    );
  }
  if (presented !== undefined && failed !== 'TLS') {
    findings.push(ok('TLS', presentedText(examination, host)));
  }
  if (bundle !== undefined) {
    const { authorities, sequence, isHeld } = bundle;
    const held = isHeld ? 'same as the held bundle' : 'differs from the held bundle';
    const counted = `${authorities} ${authorities === 1 ? 'authority' : 'authorities'}`;
    findings.push(
      ok('bundle', `${counted}${sequence === undefined ? '' : `, sequence ${sequence}`}: ${held}`),
    );
  }
  if (failure !== undefined && failed !== undefined) {
    const remedy = remedyFor(failed, examination, { isPeer, host });
    findings.push(problem(failed, failureText(failed, examination), remedy));
  }
  return findings;
}

function stepOf({ failure, connected, presented }: Examination): Step {
  switch (failure?.class) {
    case 'dns':
      return 'DNS';
    case 'connect':
      return 'TCP';
    case 'identity':
      return 'TLS';
    case 'unreachable':
      if (connected === undefined) return 'TCP';
      return presented === undefined ? 'TLS' : 'bundle';
    default:
      return 'bundle';
  }
}

function presentedText({ presented, expected }: Examination, host: string): string {
  const until = presented?.notAfter === undefined ? '' : `, valid until ${presented.notAfter}`;
  return expected === undefined ? `a certificate for ${host}` : `${expected}${until}`;
}

/** Names an unexpected identity. For all other failures it is the message of the daemon. */
function failureText(step: Step, { failure, presented, expected }: Examination): string {
  const ids = presented?.ids ?? [];
  if (step === 'TLS' && expected !== undefined && ids.length > 0 && !ids.includes(expected)) {
    return `presented ${ids.join(', ')}, expected ${expected}`;
  }
  return failure?.message ?? '';
}

function remedyFor(
  step: Step,
  { failure, presented, expected, trustDomain: name }: Examination,
  { isPeer, host }: { readonly isPeer: boolean; readonly host: string },
): string {
  const manifest = `hansa get spiffefederation ${name} -o yaml`;
  switch (step) {
    case 'DNS':
      return `The machine of this site cannot resolve the name. Check the URL (${manifest}), /etc/hosts and the resolver, and ask the other operator whether the site has moved.`;
    case 'TCP':
      return failure?.class === 'connect'
        ? 'Ask the other operator whether the site is running, and whether its federation listener has this address and port.'
        : 'No answer: a firewall may drop the packets, or the machine may be off. Ask its operator, and try from another machine.';
    case 'TLS':
      if (failure?.class !== 'identity') {
        return 'The TLS handshake did not complete: another program may listen on that port, or a proxy may terminate TLS. A proxy must pass TLS through.';
      }
      return identityRemedy(failure.rule);
    case 'bundle':
      return bundleRemedy();
  }

  function identityRemedy(rule: string | undefined): string {
    const other = presented?.ids.find((id) => id !== expected);
    if (expected !== undefined && other !== undefined) {
      const domain = /^spiffe:\/\/([^/]+)/.exec(other)?.[1] ?? '';
      const changed = `The peer changed its ${domain === name ? 'identity' : 'trust domain'}, or another host answers on this address. Ask its operator. If the change is intended, `;
      if (!isPeer) return `${changed}set bundleEndpointURL or endpointSpiffeID: ${manifest}`;
      const invite = domain === '' ? '' : ` && hansa peer invite --for ${domain}`;
      return `${changed}revoke this peer and exchange a new invitation: hansa peer revoke ${name}${invite}`;
    }
    switch (rule) {
      case 'expired':
      case 'not-yet-valid':
        return 'Compare the clocks of the two machines. If they agree, its operator must renew the certificate. A running site does this automatically.';
      case 'server-name':
        return `Set bundleEndpointURL to a name in the certificate (${manifest}), or ask its operator for a certificate for ${host}.`;
      case 'web-authority':
        return `If a private CA signed the certificate, add that CA to httpsWeb.caBundle (${manifest}). Otherwise ask its operator.`;
      case 'pinned-key':
        return `Ask its operator whether the key changed. If so, add the new key to pinnedKeys (${manifest}).`;
      default:
        return `Ask its operator which server answers there. If the site was rebuilt, bootstrap it again with its bundle or fingerprint: hansa trust bundle bootstrap ${name}`;
    }
  }

  function bundleRemedy(): string {
    switch (failure?.class) {
      case 'sequence':
        return `Ask its operator whether the site was rebuilt, or restored from a backup. If so: hansa trust refresh ${name} --accept-rollback`;
      case 'own-authority':
        return 'Do not trust this bundle: it contains an authority of this site. Ask its operator why.';
      case 'trust-domain':
        return `Check the URL (${manifest}): this is the bundle of another trust domain.`;
      case 'expired':
        return 'Its operator must rotate the authorities. A running site does this automatically. Compare the clocks too.';
      case 'unreachable':
        return 'The response was incomplete: the endpoint may be overloaded, or the network unreliable. The site retries automatically.';
      default:
        return `Check the path of the URL (${manifest}), and ask its operator: the endpoint must respond with a SPIFFE bundle.`;
    }
  }
}

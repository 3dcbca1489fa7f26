// What `hansa doctor --peer` finds out about the bundle endpoint of a federation: how far this site gets
// with it, and what its workloads have meanwhile. The daemon asks, because it holds the bundles and
// calls from where it calls; here what it saw becomes findings, each with what to do.

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

/** What workloads have meanwhile. `failed`: the steps above say why, and what to do. */
function judgeHeld(federation: SPIFFEFederation, nowMs: number, failed: boolean): Finding {
  const { state, since, why, next, todo } = federationRow(federation, nowMs);
  const asked = next === '' ? '' : `, asked again ${next}`;
  if (state === 'fresh') return ok('held', `fresh${asked}`);
  const isWithheld = state === 'stale' || state === 'expired';
  const isDown = failed || federation.spec.quarantined || next === '';
  const text = `${state}${since === '' ? '' : `, for ${since}`}${asked}${failed ? '' : `: ${why}`}`;
  const meanwhile = isWithheld
    ? 'Workloads are not given it: calls between the two sites fail.'
    : 'Workloads are given it until then.';
  const answers = `The endpoint answers now, and is asked by itself; at once: hansa trust refresh ${federation.metadata.name} --wait`;
  const remedy = failed ? meanwhile : isDown ? capitalised(todo) : answers;
  return (isWithheld ? problem : warning)('held', text, remedy);
}

function capitalised(text: string): string {
  // A command stays as it is typed.
  return text.startsWith('hansa ') ? text : text.charAt(0).toUpperCase() + text.slice(1);
}

type Step = 'DNS' | 'TCP' | 'TLS' | 'bundle';

/** Each step that was taken, up to the one that failed. */
export function judgeExamination(examination: Examination, isPeer: boolean): Finding[] {
  const { url, failure, addresses, connected, presented, bundle } = examination;
  if (url === undefined) {
    return [ok('bundle', 'static: it is in the spec, and nobody is asked for it')];
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
    const held = isHeld ? 'the same that this site holds' : 'another than this site holds';
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

/** Another identity than the expected one is told as such; everything else in the words of the daemon. */
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
      return `The machine of this site does not know the name. Look at the URL (${manifest}), at /etc/hosts and at the resolver, and ask the other operator whether the site has moved.`;
    case 'TCP':
      return failure?.class === 'connect'
        ? 'Is the other site running, and its federation listener at this address and port? Ask its operator.'
        : 'Nothing came back: a firewall in between, or a machine that is off. Ask its operator, and try from another machine.';
    case 'TLS':
      if (failure?.class !== 'identity') {
        return 'Something answers that does not finish a TLS handshake: another program on that port, or a proxy in between. TLS must be passed through.';
      }
      return identityRemedy(failure.rule);
    case 'bundle':
      return bundleRemedy();
  }

  function identityRemedy(rule: string | undefined): string {
    const other = presented?.ids.find((id) => id !== expected);
    if (expected !== undefined && other !== undefined) {
      const domain = /^spiffe:\/\/([^/]+)/.exec(other)?.[1] ?? '';
      const changed = `The peer changed its ${domain === name ? 'identity' : 'trust domain'}, or another host answers on this address. Ask its operator. If the change is meant, `;
      if (!isPeer) return `${changed}set bundleEndpointURL or endpointSpiffeID: ${manifest}`;
      const invite = domain === '' ? '' : ` && hansa peer invite --for ${domain}`;
      return `${changed}revoke this peer and exchange a new invitation: hansa peer revoke ${name}${invite}`;
    }
    switch (rule) {
      case 'expired':
      case 'not-yet-valid':
        return 'Compare the clocks of the two machines. Else its operator must have the certificate renewed: a site that runs does so by itself.';
      case 'server-name':
        return `Use a name in bundleEndpointURL that the certificate is for (${manifest}), or have its operator obtain one for ${host}.`;
      case 'web-authority':
        return `Name the authority that signed for it in httpsWeb.caBundle if it is a private one (${manifest}); else ask its operator.`;
      case 'pinned-key':
        return `Ask its operator whether the key was changed, and write the new one into pinnedKeys then (${manifest}).`;
      default:
        return `Ask its operator what answers there. If the site was rebuilt, begin anew with its bundle or fingerprint: hansa trust bundle bootstrap ${name}`;
    }
  }

  function bundleRemedy(): string {
    switch (failure?.class) {
      case 'sequence':
        return `Was the other site rebuilt, or restored from a backup? Ask its operator, and then: hansa trust refresh ${name} --accept-rollback`;
      case 'own-authority':
        return 'Do not believe it: whoever holds that authority could sign as this site. Ask its operator how it got there.';
      case 'trust-domain':
        return `Look at the URL (${manifest}): this is the bundle of another trust domain.`;
      case 'expired':
        return 'Its operator must rotate the authorities; a site that runs does so by itself. Compare the clocks too.';
      case 'unreachable':
        return 'It answered, and not to the end: its load, or the network in between. It is asked again by itself.';
      default:
        return `Look at the path of the URL (${manifest}), and ask its operator: the endpoint must answer with a SPIFFE bundle.`;
    }
  }
}

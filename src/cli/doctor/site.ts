// The checks of `hansa doctor` for a site that it reaches by URL. Files, ports and the disk are on the
// other machine, where `hansa doctor --data-dir` checks them.

import { siteKind } from '../../api/kinds/site.ts';
import type { Clock } from '../../core/clock/clock.ts';
import { toHansaError } from '../../core/errors/error.ts';
import { checkAdvertised } from '../../core/plane/advertised-url.ts';
import { checkAuthorities, checkReady } from './checks.ts';
import type { Plane } from '../../core/plane/plane.ts';
import { type Finding, inOrder, ok, warning } from '../../core/plane/doctor.ts';
import type { SiteClient } from '../../core/plane/site-client.ts';
import { printable } from '../../core/command/columns.ts';

interface SitePatient {
  readonly client: SiteClient;
  readonly clock: Clock;
}

interface NamedCheck {
  readonly name: string;
  readonly follows?: string;
  readonly run: () => Promise<readonly Finding[]>;
}

interface SiteStatus {
  readonly trustDomain?: string;
  readonly version?: string;
  readonly listeners?: readonly { readonly name: string; readonly address: string }[];
  readonly authorities?: readonly {
    readonly kind?: string;
    readonly state?: string;
    readonly notAfter: string;
  }[];
}

/** Certificates are valid from one minute before they are issued. A larger skew breaks handshakes. */
const maxSkewMs = 60_000;

export async function examineSite(
  patient: SitePatient,
  planes: readonly Plane[],
): Promise<Finding[]> {
  const { client } = patient;
  // The first request: if it fails, the command fails.
  const skew = await checkSkew(patient);
  const visit = {
    ...patient,
    running: true,
    // The settings are on the other machine.
    settings: undefined,
    listeners: () => listenersOf(client),
  };
  const checks: readonly NamedCheck[] = [
    { name: 'daemon', run: () => checkReady(client) },
    { name: 'authority', run: () => checkSiteStatus(patient) },
    ...planes.flatMap(({ doctor }) =>
      (doctor?.site ?? []).map((check) => ({
        name: check.name,
        ...(check.follows === undefined ? {} : { follows: check.follows }),
        run: () => check.run(visit),
      })),
    ),
  ];
  const findings: Finding[] = [ok('api', printable(`${client.target} answers`)), skew];
  for (const { name: check, run } of inOrder(checks)) {
    try {
      findings.push(...(await run()));
    } catch (caught) {
      const error = toHansaError(caught);
      const remedy =
        error.code === 'HANSA_FORBIDDEN'
          ? 'You have no right to read this. Ask an admin of the site for a role that has it.'
          : `hansa explain ${error.code}`;
      findings.push(warning(check, printable(`the check failed: ${error.message}`), remedy));
    }
  }
  return findings;
}

async function listenersOf(client: SiteClient): Promise<ReadonlyMap<string, string>> {
  const { status = {} } = await client.get(siteKind, siteKind.singleton as string);
  const { listeners = [] } = status as SiteStatus;
  return new Map(listeners.map(({ name, address }) => [name, address]));
}

/** Every authenticated caller may create a SelfSubjectReview. The response has the time of the site. */
async function checkSkew({ client, clock }: SitePatient): Promise<Finding> {
  const apiVersion = 'authentication.k8s.io/v1';
  const beforeMs = clock.now();
  const { body } = await client.request({
    method: 'POST',
    path: `/apis/${apiVersion}/selfsubjectreviews`,
    body: { apiVersion, kind: 'SelfSubjectReview' },
  });
  const afterMs = clock.now();
  const { creationTimestamp } = (body as { metadata: { creationTimestamp: string } }).metadata;
  const theirsMs = Date.parse(creationTimestamp);
  // The site sends whole seconds.
  const skewMs = Math.max(beforeMs - 1000 - theirsMs, theirsMs - afterMs, 0);
  const shown = `the clock of the site says ${printable(creationTimestamp)}`;
  if (skewMs < maxSkewMs) return ok('clock', shown);
  return warning(
    'clock',
    `${shown}, the clock of this machine ${new Date(afterMs).toISOString()}`,
    'Set the clock that is wrong, and synchronise both with chrony or systemd-timesyncd.',
  );
}

async function checkSiteStatus({ client, clock }: SitePatient): Promise<Finding[]> {
  const { status = {} } = await client.get(siteKind, siteKind.singleton as string);
  const { authorities = [], listeners = [] } = status as SiteStatus;
  const times = authorities
    .filter(({ kind, state }) => kind === 'x509' && state === 'active')
    .map(({ notAfter }) => Date.parse(notAfter));
  const advertised = listeners.some(({ name }) => name === 'federation')
    ? await checkAdvertised(client)
    : undefined;
  return [
    ...checkAuthorities(
      times,
      clock.now(),
      'The site rotates it automatically. See hansa trust rotate status.',
    ),
    ...(advertised === undefined ? [] : [advertised]),
  ];
}

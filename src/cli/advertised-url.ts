// Whether a site answers at the URL that it tells its peers. The site itself tries; `hansa doctor` and
// `hansa peer invite` show the result. A failure is only a warning: behind some routers a machine
// cannot reach its own public address.

import { type ErrorCode, hasCode } from '../core/errors/error.ts';
import type { Examination } from '../trust/examine-endpoint.ts';
import type { Cli } from './cli.ts';
import { type Finding, ok, warning } from './doctor-finding.ts';
import type { SiteClient } from '../core/plane/site-client.ts';
import { printable } from '../core/command/columns.ts';

const check = 'advertised';
const untold: readonly ErrorCode[] = [
  'HANSA_FORBIDDEN',
  'HANSA_NOT_FOUND',
  'HANSA_TOO_MANY_REQUESTS',
  'HANSA_UNAVAILABLE',
];

/** Undefined where the caller may not ask, or the site cannot tell now. */
export async function checkAdvertised(client: SiteClient): Promise<Finding | undefined> {
  try {
    const { body } = await client.request({ method: 'POST', path: '/hansa/v1/trust/examine' });
    return judgeAdvertised(body as Examination);
  } catch (error) {
    // Daemons of earlier versions do not know the path.
    if (untold.some((code) => hasCode(error, code))) return undefined;
    throw error;
  }
}

/** Warns on standard error. Whatever keeps the site from telling is no reason to fail. */
export async function warnUnlessAdvertised(cli: Cli, client: SiteClient): Promise<void> {
  const finding = await checkAdvertised(client).catch(() => undefined);
  if (finding?.level === 'warning') cli.note(`Warning: ${finding.text} ${finding.remedy}`);
}

export function judgeAdvertised({ url = '', failure }: Examination): Finding {
  if (failure === undefined) return ok(check, printable(`${url} answers as this site`));
  const text = `this site cannot reach its advertised URL ${url}: ${failure.message}`;
  return warning(check, printable(text), remedyFor(failure.class, new URL(url).hostname));
}

function remedyFor(failure: NonNullable<Examination['failure']>['class'], host: string): string {
  const other = 'or start the site with another --advertise';
  switch (failure) {
    case 'dns':
      return `Peers connect to this URL. Add ${host} to DNS, ${other}.`;
    case 'connect':
    case 'unreachable':
      return `Peers connect to this URL. Check the port, the firewall and --federation, ${other}. If peers reach the URL and only this machine does not, nothing needs to be done.`;
    case 'identity':
      return `Another program answers at this URL, or a proxy ends TLS. TLS must reach the federation listener, ${other}.`;
    default:
      return `Peers fetch the trust bundle at this URL. The path must lead to the federation listener, ${other}.`;
  }
}

// Checks whether the site answers at the URL that it advertises to peers. The site itself tries;
// `hansa doctor` and `hansa peer invite` show the result. A failure is only a warning: behind some
// routers a machine cannot reach its own public address.

import { type ErrorCode, hasCode } from '../errors/error.ts';
import { type Finding, ok, warning } from './doctor.ts';
import type { CommandKit } from './command-kit.ts';
import type { SiteClient } from './site-client.ts';
import { printable } from '../command/columns.ts';

/** The route that reports how far the site gets with its own bundle endpoint, or with a name, with that of a federation. */
export const examinePath = '/hansa/v1/trust/examine';

/** The part of that response about the advertised URL. */
export interface UrlExamination {
  readonly url?: string;
  readonly failure?: { readonly class: string; readonly message: string };
}

const check = 'advertised';
const untold: readonly ErrorCode[] = [
  'HANSA_FORBIDDEN',
  'HANSA_NOT_FOUND',
  'HANSA_TOO_MANY_REQUESTS',
  'HANSA_UNAVAILABLE',
];

/** Undefined where the caller lacks the right, or the site cannot check now. */
export async function checkAdvertised(client: SiteClient): Promise<Finding | undefined> {
  try {
    const { body } = await client.request({ method: 'POST', path: examinePath });
    return judgeAdvertised(body as UrlExamination);
  } catch (error) {
    // Daemons of earlier versions do not know the path.
    if (untold.some((code) => hasCode(error, code))) return undefined;
    throw error;
  }
}

/** Warns on standard error. Does not fail where the site cannot check. */
export async function warnUnlessAdvertised(
  kit: Pick<CommandKit, 'note'>,
  client: SiteClient,
): Promise<void> {
  const finding = await checkAdvertised(client).catch(() => undefined);
  if (finding?.level === 'warning') kit.note(`Warning: ${finding.text} ${finding.remedy}`);
}

export function judgeAdvertised({ url = '', failure }: UrlExamination): Finding {
  if (failure === undefined) return ok(check, printable(`${url} answers as this site`));
  const text = `this site cannot reach its advertised URL ${url}: ${failure.message}`;
  return warning(check, printable(text), remedyFor(failure.class, new URL(url).hostname));
}

function remedyFor(failure: string, host: string): string {
  const other = 'or start the site with another --advertise';
  switch (failure) {
    case 'dns':
      return `Peers connect to this URL. Add ${host} to DNS, ${other}.`;
    case 'connect':
    case 'unreachable':
      return `Peers connect to this URL. Check the port, the firewall and --federation, ${other}. If peers reach the URL and only this machine does not, ignore this warning.`;
    case 'identity':
      return `Another program answers at this URL, or a proxy ends TLS. TLS must reach the federation listener, ${other}.`;
    default:
      return `Peers fetch the trust bundle at this URL. The path must lead to the federation listener, ${other}.`;
  }
}

// The check of `hansa doctor` for the certificate of the web listener: its presence, expiry and names.
// If the site is running, the check connects to the listener as any client does.

import type { X509Certificate } from 'node:crypto';
import { connect } from 'node:tls';
import type { Clock } from '../../core/clock/clock.ts';
import type { TrustSettings } from '../settings.ts';
import { CredentialProblem } from '../web/check-credential.ts';
import { readCredential } from '../web/serving-certificate.ts';
import { type Finding, ok, problem, type SiteVisit, warning } from '../../core/plane/doctor.ts';

const check = 'web';
const dayMs = 24 * 60 * 60 * 1000;
/** Renewal starts a month before expiry, or at a third of the lifetime. A later expiry is a failure. */
const soonMs = 7 * dayMs;
const answerMs = 5_000;

export async function checkWeb(visit: SiteVisit<TrustSettings>): Promise<readonly Finding[]> {
  const { settings, clock, running } = visit;
  // Only the settings tell which server name to send.
  if (settings === undefined) return [];
  if (!running) {
    return settings.web?.from === 'files' ? [await checkFiles(settings.web, clock.now())] : [];
  }
  const web = (await visit.listeners()).get('web');
  return web === undefined ? [] : [await checkPresented(web, settings, clock)];
}

async function checkFiles(
  settings: Parameters<typeof readCredential>[0],
  nowMs: number,
): Promise<Finding> {
  try {
    const { names, notAfterMs } = await readCredential(settings, nowMs);
    return judgeTime(`for ${names.join(', ')}`, notAfterMs, nowMs, filesRemedy);
  } catch (error) {
    if (!(error instanceof CredentialProblem)) throw error;
    return problem(check, error.message, filesRemedy);
  }
}

const filesRemedy =
  'Put a new certificate and its key into the two files. The site reads them at once.';
const acmeRemedy =
  'See the response of the ACME server in the log of the site. The server must reach the site under that name.';

async function checkPresented(
  url: string,
  { web, jwtIssuer }: TrustSettings,
  clock: Clock,
): Promise<Finding> {
  const expected = web?.from === 'acme' ? web.domainName : jwtIssuer && new URL(jwtIssuer).hostname;
  const remedy = web?.from === 'acme' ? acmeRemedy : filesRemedy;
  const certificate = await presentedAt(url, expected ?? '', clock);
  if (certificate instanceof Error) {
    return problem(check, `${url} presents no certificate: ${certificate.message}`, remedy);
  }
  const names = certificate.subjectAltName ?? 'no name';
  if (expected !== undefined && certificate.checkHost(expected) === undefined) {
    const text = `${url} presents a certificate for ${names}, not for ${expected}`;
    return problem(
      check,
      text,
      'Clients reject it: obtain a certificate for the name that they use.',
    );
  }
  const nowMs = clock.now();
  return judgeTime(`${url}, for ${names}`, certificate.validToDate.getTime(), nowMs, remedy);
}

function judgeTime(what: string, notAfterMs: number, nowMs: number, remedy: string): Finding {
  const until = new Date(notAfterMs).toISOString();
  const text = `${what}, valid until ${until} (${Math.floor((notAfterMs - nowMs) / dayMs)} days)`;
  if (notAfterMs <= nowMs) return problem(check, `expired: ${text}`, remedy);
  return notAfterMs - nowMs < soonMs ? warning(check, text, remedy) : ok(check, text);
}

/** The certificate that the listener presents for this name, without verification. */
function presentedAt(url: string, name: string, clock: Clock): Promise<X509Certificate | Error> {
  const { hostname, port } = new URL(url);
  return new Promise((resolve) => {
    const socket = connect({
      host: hostname.replaceAll(/[[\]]/g, ''),
      port: Number(port),
      servername: name,
      rejectUnauthorized: false,
      ALPNProtocols: ['http/1.1'],
    });
    const timer = clock.timer(answerMs, () => {
      socket.destroy(new Error(`no answer within ${answerMs / 1000} s`));
    });
    socket.on('secureConnect', () => {
      timer.cancel();
      const certificate = socket.getPeerX509Certificate();
      socket.destroy();
      resolve(certificate ?? new Error('it sent none'));
    });
    socket.on('error', (error) => {
      timer.cancel();
      resolve(error);
    });
  });
}

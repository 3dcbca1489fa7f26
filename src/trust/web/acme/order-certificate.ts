// Runs one ACME order up to the certificate (RFC 8555 §7.4). It always closes the challenge, also after a
// failure.

import { type KeyObject, X509Certificate } from 'node:crypto';
import { type Clock, type Random, sleep } from '../../../core/clock/clock.ts';
import { exportPkcs8, generateP256 } from '../../../core/identity/x509/keys.ts';
import { privateKeyPem } from '../../../core/identity/x509/pem.ts';
import { checkCredential, CredentialProblem, type WebCredential } from '../check-credential.ts';
import type { AcmeClient, Told } from './acme-client.ts';
import { keyAuthorization } from './acme-jws.ts';
import { certificateRequest } from './certificate-request.ts';
import type { ChallengeAnswer } from './challenge-answers.ts';
import type { Authorization, Order } from './messages.ts';
import { AcmeProblem } from './problem.ts';

export interface OrderParts {
  readonly client: AcmeClient;
  readonly dnsName: string;
  readonly answer: ChallengeAnswer;
  readonly clock: Clock;
  readonly random: Random;
  readonly signal?: AbortSignal | undefined;
}

/** For validation, and again for signing. Servers take seconds. */
const patienceMs = 3 * 60_000;
const firstPollMs = 1_000;
const lastPollMs = 15_000;

/** Rejects with AcmeProblem where the server refused, or what it gave is not what was asked for. */
export async function orderCertificate(parts: OrderParts): Promise<WebCredential> {
  const { client, dnsName, clock, random } = parts;
  const { url, order } = await client.newOrder(dnsName);
  for (const authorization of order.authorizations) await authorize(parts, authorization);
  const ready = await until(parts, () => client.order(url), isNoLonger('pending'), 'the order');
  const key = await generateP256(random);
  let told: Told<Order> = { value: ready, retryAfterMs: undefined };
  if (ready.status === 'ready') {
    told = await client.finalize(ready.finalize, certificateRequest(dnsName, key));
  }
  const { status, certificate, problem } = isSettled(told.value)
    ? told.value
    : await until(parts, () => client.order(url), isSettled, 'the certificate', told.retryAfterMs);
  if (status !== 'valid' || certificate === undefined) {
    throw problem ?? new AcmeProblem('malformed', `the order ended as ${status}`);
  }
  return checkIssued(await client.certificate(certificate), key, dnsName, clock.now());
}

async function authorize(parts: OrderParts, url: string): Promise<void> {
  const { client, dnsName, answer } = parts;
  const { value: authorization } = await client.authorization(url);
  if (authorization.dnsName !== dnsName) {
    throw new AcmeProblem('malformed', 'the server asks for an authorization of another name');
  }
  if (authorization.status === 'valid') return;
  const challenge = authorization.challenges.find(({ type }) => type === answer.type);
  if (authorization.status !== 'pending' || challenge === undefined) {
    const offered = authorization.challenges.map(({ type }) => type).join(', ');
    throw new AcmeProblem(
      'malformed',
      challenge === undefined
        ? `the server does not offer the challenge ${answer.type} for ${dnsName}, but ${offered || 'none that Hansa supports'}`
        : `the authorization of ${dnsName} is ${authorization.status}`,
    );
  }
  const authorized = keyAuthorization(challenge.token, client.accountKey);
  const close = await answer.open(dnsName, challenge.token, authorized);
  try {
    await client.respond(challenge.url);
    const outcome = await until(
      parts,
      () => client.authorization(url),
      isNoLonger('pending'),
      `the validation of ${dnsName}`,
    );
    if (outcome.status !== 'valid') throw rejection(outcome, dnsName);
  } finally {
    await close();
  }
}

function rejection({ status, challenges }: Authorization, dnsName: string): AcmeProblem {
  const problem = challenges.find((each) => each.problem !== undefined)?.problem;
  return new AcmeProblem(
    problem?.type ?? 'unauthorized',
    `the site could not prove control of ${dnsName} (${status}): ${problem?.message ?? 'the server gave no reason'}`,
  );
}

const isNoLonger =
  (status: string) =>
  (told: { readonly status: string }): boolean =>
    told.status !== status;

const isSettled = ({ status }: Order): boolean => status === 'valid' || status === 'invalid';

/** Asks until the answer is one that was waited for; as often as the server wishes, within reason. */
async function until<T>(
  { clock, signal }: OrderParts,
  ask: () => Promise<Told<T>>,
  isDone: (value: T) => boolean,
  what: string,
  firstDelayMs = 0,
): Promise<T> {
  const deadline = clock.monotonic() + patienceMs;
  let delayMs = firstDelayMs;
  for (let pollMs = firstPollMs; ; pollMs = Math.min(pollMs * 2, lastPollMs)) {
    if (delayMs > 0) await sleep(clock, Math.min(delayMs, lastPollMs), signal);
    const { value, retryAfterMs } = await ask();
    if (isDone(value)) return value;
    if (clock.monotonic() >= deadline) {
      throw new AcmeProblem(
        'timeout',
        `${what} did not arrive within ${patienceMs / 60_000} minutes`,
      );
    }
    delayMs = Math.max(retryAfterMs ?? pollMs, firstPollMs);
  }
}

function checkIssued(
  chainPem: string,
  key: KeyObject,
  dnsName: string,
  nowMs: number,
): WebCredential {
  const pkcs8 = exportPkcs8(key);
  try {
    const credential = checkCredential(chainPem, privateKeyPem(pkcs8), nowMs);
    if (new X509Certificate(credential.certificateChain).checkHost(dnsName) === undefined) {
      throw new CredentialProblem(`it is not for ${dnsName}`);
    }
    return credential;
  } catch (error) {
    if (!(error instanceof CredentialProblem)) throw error;
    throw new AcmeProblem('malformed', `the issued certificate cannot be used: ${error.message}`);
  } finally {
    pkcs8.fill(0);
  }
}

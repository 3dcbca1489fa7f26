// Keeps a certificate of an ACME server for the web listener. One replica of the site orders it, and all
// replicas present the one in the store.

import { readFileSync } from 'node:fs';
import type { KeyObject } from 'node:crypto';
import { HansaError, hasCode } from '../../core/errors/error.ts';
import { generateP256 } from '../../core/identity/x509/keys.ts';
import type { PlaneContext } from '../../core/plane/plane.ts';
import type {
  Controller,
  ReconcileContext,
  ReconcileResult,
} from '../../core/reconcile/controller.ts';
import type { Source } from '../../core/reconcile/source.ts';
import type { Commit, Watch } from '../../core/store/store.ts';
import type { WebCertificateSettings } from '../settings.ts';
import type { WebCertificateKeeper } from '../web/certificate-keeper.ts';
import { checkCredential, CredentialProblem } from '../web/check-credential.ts';
import { AcmeClient } from '../web/acme/acme-client.ts';
import { acmeCollection, AcmeRecords, type KeptCertificate } from '../web/acme/acme-records.ts';
import { type ChallengeAnswer, httpAnswer, tlsAlpnAnswer } from '../web/acme/challenge-answers.ts';
import { orderCertificate } from '../web/acme/order-certificate.ts';
import { AcmeProblem } from '../web/acme/problem.ts';
import { renewAtMs, retryAfterMs } from '../web/acme/renewal.ts';

export type AcmeSettings = Extract<WebCertificateSettings, { readonly from: 'acme' }>;

type Context = Pick<
  PlaneContext,
  'clock' | 'random' | 'log' | 'store' | 'sealer' | 'transport' | 'version'
>;

const lease = 'controller.acme';
const onlyKey = 'certificate';
/** Covers the two waits of an order, and the requests between them. */
const orderMs = 10 * 60_000;
/** Wall time can jump and timers do not follow, so the controller checks at least this often. */
const lookEveryMs = 3_600_000;
/** The minimum time since the last attempt, also after a restart, so that a crash loop does not flood the server. */
const restMs = 60_000;
/** When less than this share of the renewal period is left, a failure makes the site unready. */
const urgentShare = 0.5;

export class AcmeController {
  readonly #settings: AcmeSettings;
  readonly #context: Context;
  readonly #keeper: WebCertificateKeeper;
  readonly #records: AcmeRecords;
  readonly #answer: ChallengeAnswer;
  readonly #caBundle: string | undefined;
  #watch: Watch | undefined;
  #failures = 0;
  /** In monotonic time, so that a clock that is set back does not delay it. */
  #retryAt = 0;
  #stopped = false;

  private constructor(settings: AcmeSettings, keeper: WebCertificateKeeper, context: Context) {
    this.#settings = settings;
    this.#context = context;
    this.#keeper = keeper;
    this.#records = new AcmeRecords(context.store, context.sealer);
    this.#answer =
      settings.challenge === 'http-01'
        ? httpAnswer(settings.httpAddress)
        : tlsAlpnAnswer(keeper, context);
    this.#caBundle = settings.caFile === undefined ? undefined : readCaFile(settings.caFile);
  }

  /** Presents the certificate in the store; rejects with HANSA_CONFIG_INVALID if a file cannot be read. */
  static async start(
    settings: AcmeSettings,
    keeper: WebCertificateKeeper,
    context: Context,
  ): Promise<AcmeController> {
    const acme = new AcmeController(settings, keeper, context);
    const { lastAttemptMs } = context.store.facts.get(acmeCollection, onlyKey) ?? {};
    if (typeof lastAttemptMs === 'number' && lastAttemptMs <= context.clock.now()) {
      acme.#retryAt = context.clock.monotonic() + lastAttemptMs + restMs - context.clock.now();
    }
    acme.#follow();
    try {
      await acme.#present();
    } catch (error) {
      acme.stop();
      throw error;
    }
    return acme;
  }

  stop(): void {
    this.#stopped = true;
    this.#watch?.stop();
  }

  get controller(): Controller {
    return {
      name: 'acme',
      lease,
      sources: [only(onlyKey)],
      timeoutMs: orderMs,
      reconcile: (_key, context) => this.#reconcile(context),
    };
  }

  async #reconcile({ epoch, signal, log }: ReconcileContext): Promise<ReconcileResult> {
    const { clock, random, store } = this.#context;
    const fence = epoch === undefined ? undefined : { lease, epoch };
    const kept = await this.#usable();
    const nowMs = clock.now();
    const restLeftMs = this.#retryAt - clock.monotonic();
    const dueInMs = Math.max((kept?.renewAtMs ?? 0) - nowMs, restLeftMs);
    if (dueInMs > 0) return { requeueAfterMs: Math.min(dueInMs, lookEveryMs) };
    try {
      store.facts.merge(acmeCollection, onlyKey, { lastAttemptMs: nowMs });
      await this.#order(fence, signal);
      this.#failures = 0;
      this.#retryAt = 0;
      log.info('web certificate obtained', { dnsName: this.#settings.domainName });
      return { requeueAfterMs: 1_000 };
    } catch (error) {
      if (signal.aborted || hasCode(error, 'HANSA_FENCED')) throw error;
      this.#failures += 1;
      const askedForMs = error instanceof AcmeProblem ? error.retryAfterMs : undefined;
      const waitMs = retryAfterMs(this.#failures, askedForMs, random.unit());
      this.#retryAt = clock.monotonic() + waitMs;
      this.#tell(error, waitMs, kept);
      return { requeueAfterMs: Math.min(waitMs, lookEveryMs) };
    }
  }

  async #order(fence: Commit['fence'], signal: AbortSignal): Promise<void> {
    const { clock, random, transport, version } = this.#context;
    const { directoryUrl, domainName, email } = this.#settings;
    const clientFor = (key: KeyObject, url?: string): AcmeClient =>
      new AcmeClient(
        {
          transport,
          clock,
          directoryUrl,
          caBundle: this.#caBundle,
          accountKey: key,
          userAgent: `hansa/${version}`,
          signal,
        },
        url,
      );
    const register = async (key: KeyObject): Promise<AcmeClient> => {
      const client = clientFor(key);
      const url = await client.register(email);
      await this.#records.keepAccount({ directoryUrl, key, url }, fence);
      return client;
    };
    const order = (client: AcmeClient) =>
      orderCertificate({
        client,
        dnsName: domainName,
        answer: this.#answer,
        clock,
        random,
        signal,
      });

    const known = await this.#records.account();
    const key = known?.directoryUrl === directoryUrl ? known.key : await this.#newAccountKey(fence);
    const url = known?.directoryUrl === directoryUrl ? known.url : undefined;
    let credential;
    try {
      credential = await order(url === undefined ? await register(key) : clientFor(key, url));
    } catch (error) {
      // The server lost our account, as test servers do. The key is still valid.
      const forgotten = error instanceof AcmeProblem && error.type === 'accountDoesNotExist';
      if (!forgotten || url === undefined) throw error;
      credential = await order(await register(key));
    }
    const { certificateChain, privateKey } = credential;
    await this.#records.keepCertificate(
      {
        directoryUrl,
        dnsName: domainName,
        certificateChain,
        privateKey,
        renewAtMs: renewAtMs(credential, clock.now(), random.unit()),
      },
      fence,
    );
    await this.#present();
  }

  /** Stored before the registration, so that a crash does not leave an account without its key. */
  async #newAccountKey(fence: Commit['fence']): Promise<KeyObject> {
    const key = await generateP256(this.#context.random);
    const { directoryUrl } = this.#settings;
    await this.#records.keepAccount({ directoryUrl, key, url: undefined }, fence);
    return key;
  }

  /** The certificate in the store, if it has the name and the server of the settings. */
  async #usable(): Promise<KeptCertificate | undefined> {
    const { directoryUrl, domainName } = this.#settings;
    const kept = await this.#records.certificate();
    return kept?.dnsName === domainName && kept.directoryUrl === directoryUrl ? kept : undefined;
  }

  /** A certificate of another server is better than none until the next one arrives. */
  async #present(): Promise<void> {
    const { clock, log } = this.#context;
    const kept = await this.#records.certificate();
    if (this.#stopped || kept?.dnsName !== this.#settings.domainName) return;
    try {
      this.#keeper.present(checkCredential(kept.certificateChain, kept.privateKey, clock.now()));
    } catch (error) {
      if (!(error instanceof CredentialProblem)) throw error;
      log.warn('cannot present the web certificate in the store', { why: error.message });
    }
  }

  #follow(): void {
    const { store } = this.#context;
    this.#watch = store.watch(acmeCollection, store.revision, {
      changes: (changes) => {
        if (changes.some(({ name }) => name === onlyKey)) void this.#presentAnew();
      },
      ended: (error) => {
        if (!hasCode(error, 'HANSA_EXPIRED') || this.#stopped) return;
        this.#follow();
        void this.#presentAnew();
      },
    });
  }

  async #presentAnew(): Promise<void> {
    try {
      await this.#present();
    } catch (error) {
      this.#context.log.error('cannot read the web certificate in the store', { error });
    }
  }

  #tell(error: unknown, waitMs: number, kept: KeptCertificate | undefined): void {
    const { clock, log } = this.#context;
    const { domainName, directoryUrl } = this.#settings;
    const why = error instanceof Error ? error.message : String(error);
    const until = new Date(clock.now() + waitMs).toISOString();
    const presented = this.#keeper.current;
    const leftMs = presented === undefined ? 0 : presented.notAfterMs - clock.now();
    const windowMs =
      presented === undefined || kept === undefined ? 0 : presented.notAfterMs - kept.renewAtMs;
    this.#keeper.failed(
      `cannot get a certificate for ${domainName} from ${new URL(directoryUrl).host}: ${why}. Next attempt at ${until}`,
      leftMs <= windowMs * urgentShare,
    );
    log.error('cannot obtain the web certificate', {
      dnsName: domainName,
      directoryUrl,
      why,
      failures: this.#failures,
      nextAttempt: until,
    });
  }
}

/** A source with one constant key. */
function only(key: string): Source {
  return {
    start: (sink) => {
      sink.add(key);
      return { resync: () => sink.add(key), stop: () => undefined };
    },
  };
}

function readCaFile(path: string): string {
  try {
    const pem = readFileSync(path, 'utf8');
    if (/-----BEGIN CERTIFICATE-----/.test(pem)) return pem;
    throw new TypeError('it contains no certificate in PEM');
  } catch (error) {
    throw new HansaError(
      'HANSA_CONFIG_INVALID',
      `Cannot read acme.caFile ${path}: ${(error as Error).message}.`,
    );
  }
}

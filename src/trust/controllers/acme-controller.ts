// Keeps the web listener supplied by an ACME server: one replica of the site orders, all of them
// present what the store holds.

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
/** Two phases of patience, and the requests between. */
const orderMs = 10 * 60_000;
/** Wall time can jump, timers do not follow: look at least this often. */
const lookEveryMs = 3_600_000;
/** After a restart, since the last attempt of the process before: a crash must not become a flood of orders. */
const restMs = 60_000;
/** Once less than this share of the time for renewals is left, their failure makes the site unready. */
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
  /** In monotonic time: a clock that is set back must not put it off. */
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

  /** Presents what the store holds; rejects with HANSA_CONFIG_INVALID where a file cannot be read. */
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
      // The server forgot us, as test servers do; the key is still good.
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

  /** Kept before the server hears of it, so that a crash does not leave an account without its key. */
  async #newAccountKey(fence: Commit['fence']): Promise<KeyObject> {
    const key = await generateP256(this.#context.random);
    const { directoryUrl } = this.#settings;
    await this.#records.keepAccount({ directoryUrl, key, url: undefined }, fence);
    return key;
  }

  /** The certificate of the store, where it is for the name and from the server of the settings. */
  async #usable(): Promise<KeptCertificate | undefined> {
    const { directoryUrl, domainName } = this.#settings;
    const kept = await this.#records.certificate();
    return kept?.dnsName === domainName && kept.directoryUrl === directoryUrl ? kept : undefined;
  }

  /** One from another server is better than none until the next one is there. */
  async #present(): Promise<void> {
    const { clock, log } = this.#context;
    const kept = await this.#records.certificate();
    if (this.#stopped || kept?.dnsName !== this.#settings.domainName) return;
    try {
      this.#keeper.present(checkCredential(kept.certificateChain, kept.privateKey, clock.now()));
    } catch (error) {
      if (!(error instanceof CredentialProblem)) throw error;
      log.warn('the web certificate of the store is not presented', { why: error.message });
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
      this.#context.log.error('the web certificate of the store cannot be read', { error });
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
      `no certificate for ${domainName} came from ${new URL(directoryUrl).host}: ${why}. Tried again at ${until}`,
      leftMs <= windowMs * urgentShare,
    );
    log.error('web certificate could not be obtained', {
      dnsName: domainName,
      directoryUrl,
      why,
      failures: this.#failures,
      nextAttempt: until,
    });
  }
}

/** A source of one key that is always there. */
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
    throw new TypeError('it holds no certificate in PEM');
  } catch (error) {
    throw new HansaError(
      'HANSA_CONFIG_INVALID',
      `Cannot read acme.caFile ${path}: ${(error as Error).message}.`,
    );
  }
}

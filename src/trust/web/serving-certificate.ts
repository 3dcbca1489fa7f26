// Reads the certificate of the web listener from files that another program renews: at start, after
// changes in their folders, and periodically. An invalid pair does not replace the current one.

import { type FSWatcher, watch } from 'node:fs';
import { open } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { Clock, Timer } from '../../core/clock/clock.ts';
import { HansaError } from '../../core/errors/error.ts';
import type { Log } from '../../core/log/log.ts';
import type { WebCertificateSettings } from '../settings.ts';
import { checkCredential, CredentialProblem, type WebCredential } from './check-credential.ts';
import type { WebCertificateKeeper } from './certificate-keeper.ts';

export type ServingFiles = Extract<WebCertificateSettings, { readonly from: 'files' }>;

/** Far above any chain. */
const maxFileBytes = 256 * 1024;
/** Two files are written one after the other: what came between is not looked at. */
const settleMs = 250;

export class ServingCertificate {
  readonly #files: ServingFiles;
  readonly #keeper: WebCertificateKeeper;
  readonly #clock: Clock;
  readonly #log: Log;
  #watchers: readonly FSWatcher[] = [];
  #timer: Timer | undefined;
  #reading: Promise<void> | undefined;
  #settling = false;
  #again = false;
  #stopped = false;

  private constructor(
    files: ServingFiles,
    keeper: WebCertificateKeeper,
    around: { readonly clock: Clock; readonly log: Log },
  ) {
    this.#files = files;
    this.#keeper = keeper;
    this.#clock = around.clock;
    this.#log = around.log;
  }

  /** Rejects with HANSA_CONFIG_INVALID where the files cannot be used: then there is nothing to serve with. */
  static async start(
    files: ServingFiles,
    keeper: WebCertificateKeeper,
    around: { readonly clock: Clock; readonly log: Log },
  ): Promise<ServingCertificate> {
    const serving = new ServingCertificate(files, keeper, around);
    serving.#watch();
    try {
      keeper.present(await readCredential(files, around.clock.now()));
    } catch (error) {
      serving.stop();
      if (!(error instanceof CredentialProblem)) throw error;
      throw new HansaError(
        'HANSA_CONFIG_INVALID',
        `Cannot start the web listener: ${error.message}. Set servingCert.certFile and servingCert.keyFile to a matching pair.`,
      );
    }
    if (!serving.#settling) serving.#readAfter(files.fileSyncSeconds * 1000);
    return serving;
  }

  stop(): void {
    this.#stopped = true;
    this.#timer?.cancel();
    for (const watcher of this.#watchers) watcher.close();
  }

  /**
   * Watches the folders, because Kubernetes updates a Secret by replacing a symbolic link beside the
   * files, and most programs write a new file and rename it. Each read starts new watches first,
   * because the folder itself may have been replaced. So no change is missed.
   */
  #watch(): void {
    for (const watcher of this.#watchers) watcher.close();
    const { certFile, keyFile } = this.#files;
    const folders = new Set([dirname(certFile), dirname(keyFile)]);
    this.#watchers = [...folders].flatMap((folder) => {
      try {
        const watcher = watch(folder, { persistent: false }, () => this.#noticed());
        watcher.on('error', () => watcher.close());
        return [watcher];
      } catch (error) {
        this.#log.warn('cannot watch a folder; the site reads its files only periodically', {
          folder,
          error,
        });
        return [];
      }
    });
  }

  /** Counted from the first change: where others write all the time, the last one never comes. */
  #noticed(): void {
    if (this.#reading !== undefined) this.#again = true;
    else if (!this.#settling) {
      this.#settling = true;
      this.#readAfter(settleMs);
    }
  }

  #readAfter(delayMs: number): void {
    if (this.#stopped) return;
    this.#timer?.cancel();
    this.#timer = this.#clock.timer(delayMs, () => void this.#read());
  }

  /** One at a time; what changed meanwhile is read after. */
  async #read(): Promise<void> {
    this.#settling = false;
    this.#watch();
    this.#reading = this.#readOnce();
    await this.#reading;
    this.#reading = undefined;
    if (this.#stopped) return;
    const again = this.#again;
    this.#again = false;
    this.#settling = again;
    this.#readAfter(again ? settleMs : this.#files.fileSyncSeconds * 1000);
  }

  async #readOnce(): Promise<void> {
    const before = this.#keeper.current;
    try {
      const credential = await readCredential(this.#files, this.#clock.now());
      if (this.#stopped) return;
      this.#keeper.present(credential);
      if (this.#keeper.current !== before) {
        this.#log.info('web certificate reloaded', {
          names: credential.names,
          notAfter: new Date(credential.notAfterMs).toISOString(),
        });
      }
    } catch (error) {
      const why = error instanceof CredentialProblem ? error.message : String(error);
      this.#keeper.failed(`cannot use the new certificate of the web listener: ${why}`, true);
      this.#log.error('cannot use the new web certificate; the previous one stays', { why });
    }
  }
}

/** Throws CredentialProblem, which names the file. */
export async function readCredential(files: ServingFiles, nowMs: number): Promise<WebCredential> {
  const { certFile, keyFile } = files;
  const [chain, key] = await Promise.all([readBounded(certFile), readBounded(keyFile)]);
  try {
    return checkCredential(chain, key, nowMs);
  } catch (error) {
    if (!(error instanceof CredentialProblem)) throw error;
    throw new CredentialProblem(`${certFile} with ${keyFile}: ${error.message}`);
  }
}

async function readBounded(path: string): Promise<string> {
  try {
    const file = await open(path, 'r');
    try {
      const { size } = await file.stat();
      if (size > maxFileBytes) {
        throw new CredentialProblem(
          `${path} has ${size} bytes, more than the limit of ${maxFileBytes}`,
        );
      }
      return await file.readFile('utf8');
    } finally {
      await file.close();
    }
  } catch (error) {
    if (error instanceof CredentialProblem) throw error;
    throw new CredentialProblem(`cannot read ${path}: ${reasonOf(error as NodeJS.ErrnoException)}`);
  }
}

function reasonOf(error: NodeJS.ErrnoException): string {
  if (error.code === 'ENOENT') return 'no such file';
  if (error.code === 'EACCES') return 'the user of the site may not read it';
  return error.code === 'EISDIR' ? 'it is a directory' : error.message;
}

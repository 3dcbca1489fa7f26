import assert from 'node:assert/strict';
import { createPrivateKey } from 'node:crypto';
import { mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, suite, test } from 'node:test';
import type { Clock } from '../../core/clock/clock.ts';
import { systemClock } from '../../core/clock/system.ts';
import { hasCode } from '../../core/errors/error.ts';
import { certificatePem } from '../../core/identity/x509/pem.ts';
import { credentialOf, type Forged, forge, hourMs } from '../../core/identity/x509/test-forge.ts';
import type { Log } from '../../core/log/log.ts';
import { MetricsRegistry } from '../../core/metrics/registry.ts';
import { ServingCertificate } from './serving-certificate.ts';
import { WebCertificateKeeper } from './certificate-keeper.ts';

const folder = mkdtempSync(join(tmpdir(), 'hansa-web-certificate-'));
const running: ServingCertificate[] = [];
after(() => {
  for (const serving of running) serving.stop();
  rmSync(folder, { recursive: true });
});

const root = forge({ ca: true });
const serving = (name = 'web.example', changes: object = {}): Forged =>
  forge({ issuer: root, ca: false, dnsNames: [name], ...changes });

let places = 0;
interface Place {
  readonly certFile: string;
  readonly keyFile: string;
  readonly folder: string;
}

function place(): Place {
  const at = join(folder, `${places++}`);
  mkdirSync(at);
  return { folder: at, certFile: join(at, 'tls.crt'), keyFile: join(at, 'tls.key') };
}

function write({ certFile, keyFile }: Place, pair: Forged, key: Forged = pair): void {
  writeFileSync(keyFile, credentialOf(key).privateKey);
  writeFileSync(certFile, credentialOf(pair).certificateChain);
}

function watchedLog(): { readonly log: Log; readonly next: () => Promise<string> } {
  const lines: string[] = [];
  const waiting: ((line: string) => void)[] = [];
  const say = (line: string, fields?: object): void => {
    lines.push(`${line} ${JSON.stringify(fields)}`);
    for (const wake of waiting.splice(0)) wake(lines.at(-1) ?? '');
  };
  const log: Log = { debug: () => undefined, info: say, warn: say, error: say, with: () => log };
  return { log, next: () => new Promise((resolve) => waiting.push(resolve)) };
}

async function start(
  at: Place,
  clock: Clock = systemClock,
  metrics = new MetricsRegistry(),
  keeper = new WebCertificateKeeper(clock, metrics),
) {
  const { log, next } = watchedLog();
  const files = { from: 'files', certFile: at.certFile, keyFile: at.keyFile } as const;
  const started = await ServingCertificate.start({ ...files, fileSyncSeconds: 300 }, keeper, {
    clock,
    log,
  });
  running.push(started);
  return { keeper, next, metrics };
}

/** Real time for files, moved time for timers. */
class HandClock implements Clock {
  readonly #timers = new Set<{ readonly delayMs: number; readonly fire: () => void }>();
  offsetMs = 0;

  now(): number {
    return systemClock.now() + this.offsetMs;
  }

  monotonic(): number {
    return systemClock.monotonic() + this.offsetMs;
  }

  timer(delayMs: number, fire: () => void) {
    const timer = { delayMs, fire };
    this.#timers.add(timer);
    return { cancel: () => void this.#timers.delete(timer) };
  }

  /** Fires what was set for so long. */
  elapse(delayMs: number): void {
    for (const timer of this.#timers) {
      if (timer.delayMs !== delayMs) continue;
      this.#timers.delete(timer);
      timer.fire();
    }
  }
}

suite('files at the start', () => {
  test('are presented', async () => {
    const at = place();
    const pair = serving();
    write(at, pair);
    const { keeper, metrics } = await start(at);
    assert.deepEqual(keeper.current?.names, ['web.example']);
    assert.equal(keeper.problem, undefined);
    const expiry = Math.floor(pair.certificate.notAfterMs / 1000);
    assert.ok(
      metrics.expose().includes(`hansa_web_certificate_expiry_timestamp_seconds ${expiry}\n`),
    );
  });

  const refused: Record<string, [(at: Place) => void, RegExp]> = {
    'a missing certificate': [() => undefined, /cannot read .*tls\.(crt|key): no such/],
    'a missing key': [
      (at) => {
        write(at, serving());
        rmSync(at.keyFile);
      },
      /cannot read .*tls\.key: no such file/,
    ],
    'a folder': [
      (at) => {
        write(at, serving());
        rmSync(at.certFile);
        mkdirSync(at.certFile);
      },
      /tls\.crt: it is a directory/,
    ],
    'no PEM': [
      (at) => {
        write(at, serving());
        writeFileSync(at.certFile, 'hello');
      },
      /it contains no certificate in PEM/,
    ],
    'a damaged certificate': [
      (at) => {
        write(at, serving());
        writeFileSync(at.certFile, certificatePem(Buffer.from('3003020101', 'hex')));
      },
      /certificate 1 cannot be read/,
    ],
    'no key': [
      (at) => {
        write(at, serving());
        writeFileSync(at.keyFile, 'swordfish');
      },
      /it contains no private key in PEM/,
    ],
    'an encrypted key': [
      (at) => {
        const pair = serving();
        write(at, pair);
        const pem = createPrivateKey(credentialOf(pair).privateKey).export({
          format: 'pem',
          type: 'pkcs8',
          cipher: 'aes-256-cbc',
          passphrase: 'swordfish',
        });
        writeFileSync(at.keyFile, pem);
      },
      /the private key is encrypted; use a key without a passphrase/,
    ],
    'the key of another': [
      (at) => write(at, serving(), serving()),
      /the private key does not match the first certificate/,
    ],
    'one without a name': [
      (at) => write(at, forge({ issuer: root, ca: false })),
      /has no subject alternative name of a host/,
    ],
    'one that has expired': [
      (at) => write(at, serving('web.example', { notAfterMs: Date.UTC(2026, 0, 1) })),
      /the certificate expired at 2026-01-01T00:00:00\.000Z/,
    ],
    'one of the future': [
      (at) => write(at, serving('web.example', { notBeforeMs: Date.UTC(2040, 0, 1) })),
      /the certificate is not valid before 2040-01-01/,
    ],
    'a chain in the wrong order': [
      (at) => {
        const pair = serving();
        write(at, pair);
        const other = certificatePem(forge({ ca: true }).der);
        writeFileSync(at.certFile, credentialOf(pair).certificateChain + other);
      },
      /certificate 2 of the chain did not issue the one before it/,
    ],
    'a file without end': [
      (at) => {
        write(at, serving());
        writeFileSync(at.certFile, Buffer.alloc(300 * 1024, 'x'));
      },
      /has 307200 bytes, more than the limit of 262144/,
    ],
  };
  for (const [what, [prepare, reason]] of Object.entries(refused)) {
    test(`are refused where they are ${what}`, async () => {
      const at = place();
      prepare(at);
      await assert.rejects(start(at), (error: unknown) => {
        assert.ok(hasCode(error, 'HANSA_CONFIG_INVALID'));
        assert.match(error.message, reason);
        assert.doesNotMatch(error.message, /swordfish/);
        return true;
      });
    });
  }
});

suite('files that change', () => {
  const changed = (keeper: WebCertificateKeeper): Promise<void> =>
    new Promise((resolve) => {
      const stop = keeper.onChange(() => {
        stop();
        resolve();
      });
    });

  test('are read anew when they are written', async () => {
    const at = place();
    write(at, serving('old.example'));
    const { keeper } = await start(at);
    const noticed = changed(keeper);
    write(at, serving('new.example'));
    await noticed;
    assert.deepEqual(keeper.current?.names, ['new.example']);
  });

  test('are read anew though they changed again while the last change was taken', async () => {
    const at = place();
    write(at, serving('old.example'));
    const { keeper } = await start(at);
    const newest = new Promise<void>((resolve) => {
      keeper.onChange(() => {
        if (keeper.current?.names[0] === 'newest.example') resolve();
        else write(at, serving('newest.example'));
      });
    });
    write(at, serving('new.example'));
    await newest;
    assert.deepEqual(keeper.current?.names, ['newest.example']);
  });

  test('are read anew though they changed while they were read for the first time', async () => {
    const at = place();
    write(at, serving('old.example'));
    const metrics = new MetricsRegistry();
    const keeper = new WebCertificateKeeper(systemClock, metrics);
    const newest = new Promise<void>((resolve) => {
      keeper.onChange(() => {
        if (keeper.current?.names[0] === 'newest.example') resolve();
        else write(at, serving('newest.example'));
      });
    });
    await start(at, systemClock, metrics, keeper);
    await newest;
    assert.deepEqual(keeper.current?.names, ['newest.example']);
  });

  test('are read anew though others write beside them all the time', async () => {
    const at = place();
    write(at, serving('old.example'));
    const { keeper } = await start(at);
    const noticed = changed(keeper);
    let lines = 0;
    const noise = setInterval(() => writeFileSync(join(at.folder, 'log'), `${lines++}`), 20);
    write(at, serving('new.example'));
    await noticed;
    clearInterval(noise);
    assert.deepEqual(keeper.current?.names, ['new.example']);
  });

  test('are read anew when a link is moved, as Kubernetes does it with Secrets', async () => {
    const at = place();
    const version = (name: string): string => {
      const made = join(at.folder, `..${name}`);
      mkdirSync(made);
      write(
        { folder: made, certFile: join(made, 'tls.crt'), keyFile: join(made, 'tls.key') },
        serving(name),
      );
      return made;
    };
    symlinkSync(version('old.example'), join(at.folder, '..data'));
    symlinkSync('..data/tls.crt', at.certFile);
    symlinkSync('..data/tls.key', at.keyFile);
    const { keeper } = await start(at);
    assert.deepEqual(keeper.current?.names, ['old.example']);
    const noticed = changed(keeper);
    symlinkSync(version('new.example'), join(at.folder, '..data_tmp'));
    renameSync(join(at.folder, '..data_tmp'), join(at.folder, '..data'));
    await noticed;
    assert.deepEqual(keeper.current?.names, ['new.example']);
  });

  test('are read anew at intervals where no change is noticed', async () => {
    const at = place();
    write(at, serving('old.example'));
    const clock = new HandClock();
    const { keeper, next } = await start(at, clock);
    write(at, serving('new.example'));
    const read = next();
    clock.elapse(300_000);
    assert.match(await read, /web certificate reloaded .*new\.example/);
    assert.deepEqual(keeper.current?.names, ['new.example']);
  });

  test('are not used while they do not fit; what is presented stays until they do', async () => {
    const at = place();
    write(at, serving('old.example'));
    const clock = new HandClock();
    const { keeper, next, metrics } = await start(at, clock);
    const refusal = next();
    write(at, serving('new.example'), serving('other.example'));
    clock.elapse(300_000);
    assert.match(await refusal, /the private key does not match the first certificate/);
    assert.deepEqual(keeper.current?.names, ['old.example']);
    assert.match(keeper.problem ?? '', /cannot use .*tls\.crt with .*tls\.key: the private key/);
    assert.match(metrics.expose(), /hansa_web_certificate_failures_total 1\n/);
    const read = next();
    write(at, serving('new.example'));
    // Set when the refused reading was over, which is after it was told of.
    await new Promise((resolve) => setImmediate(resolve));
    // The one that is set depends on whether the folder was heard of already.
    clock.elapse(250);
    clock.elapse(300_000);
    await read;
    assert.deepEqual(keeper.current?.names, ['new.example']);
    assert.equal(keeper.problem, undefined);
  });

  test('that are the same change nothing', async () => {
    const at = place();
    const pair = serving();
    write(at, pair);
    const { keeper } = await start(at);
    let changes = 0;
    keeper.onChange(() => changes++);
    const { current } = keeper;
    assert(current);
    keeper.present({ ...current });
    assert.equal(changes, 0);
  });
});

test('a certificate that has expired is a problem by itself', async () => {
  const at = place();
  write(at, serving('web.example', { notAfterMs: systemClock.now() + hourMs }));
  const clock = new HandClock();
  const { keeper } = await start(at, clock);
  clock.offsetMs = 2 * hourMs;
  assert.match(keeper.problem ?? '', /the certificate of the web listener expired at /);
});

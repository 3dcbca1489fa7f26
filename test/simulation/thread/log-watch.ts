// Checks the audit logs of all sites and what the sites know of each other's logs, on every commit and every
// message. It knows every history that a site ever had, so it sees what no site can see.
//
// - A checkpoint has the root of the log that the database holds.
// - A site moves from one checkpoint of a peer only to one that extends it.
// - A site cosigns only what it has stored, has no finding about, and has confirmed after a restore.
// - A cosignature that a site stores is for its own log, and never replaced by an older one.
// - No site has a finding about an honest log, and no message of others makes an honest log stop.
// - A log that stopped signs nothing.

import assert from 'node:assert/strict';
import { hash } from 'node:crypto';
import { parseCheckpoint } from '../../../src/core/audit/checkpoint.ts';
import { siteOfOrigin } from '../../../src/core/audit/introduction.ts';
import { latestRestore, restoreCollection } from '../../../src/core/audit/restore-record.ts';
import { emptyRoot, Frontier } from '../../../src/core/merkle/tree.ts';
import type { Batch, ChangeRow, Head } from '../../../src/core/store/driver.ts';
import { paths } from '../../../src/peering/messages.ts';
import {
  type WitnessedLog,
  witnessedCollection,
} from '../../../src/peering/witness/witnessed-logs.ts';

/** One history of a log. Sites that are put back to an old copy have several. */
interface History {
  readonly origin: string;
  readonly frontier: Frontier;
  /** By size, in base64. */
  readonly roots: Map<number, string>;
}

interface SiteLog {
  readonly histories: History[];
  /** Identifies the last restore. */
  restore: string | undefined;
  stoppedMs: number | undefined;
}

interface StoredHead {
  readonly size: number;
  readonly rootHash: string;
}

/** A message with a cosignature may be under way for as long as a call takes. */
const longestCallMs = 6000;

export class LogWatch {
  readonly #now: () => number;
  readonly #sites = new Map<string, SiteLog>();
  /** `site|peer`: what the database of the site holds of the log of the peer. */
  readonly #witnessed = new Map<string, WitnessedLog>();
  /** `site|origin`: every head that the site has stored, with the restore after which it was confirmed. */
  readonly #stored = new Map<string, Map<string, Set<string | undefined>>>();
  /** `site|witness`: the stored cosignature. */
  readonly #cosigned = new Map<string, StoredHead & { readonly key: string; origin: string }>();
  readonly #findingMs = new Map<string, number>();
  /** Sites that lie about their logs, or whose logs were put back. Findings about them are right. */
  readonly suspects = new Set<string>();

  constructor(now: () => number) {
    this.#now = now;
  }

  /** What this site holds of the log of that one. */
  witnessed(site: string, peer: string): WitnessedLog | undefined {
    return this.#witnessed.get(`${site}|${peer}`);
  }

  isStopped(site: string): boolean {
    return this.#log(site).stoppedMs !== undefined;
  }

  /** Throws where the commit is not as it must be. */
  see(site: string, { audit, changes, head }: Batch): void {
    const history = this.#log(site).histories.at(-1) as History;
    for (const { index, leafHash } of audit) {
      assert.equal(index, history.frontier.size, `${site}: a record has another place in the log`);
      history.frontier.append(leafHash);
    }
    assert.equal(head.treeSize, history.frontier.size, `${site}: the log has another size`);
    if (audit.length > 0)
      history.roots.set(head.treeSize, history.frontier.root().toString('base64'));
    for (const change of changes) this.#seeChange(site, change);
  }

  /** The database of the site was replaced while it was down. */
  putBack(site: string, head: Head, origin: string, rows: readonly ChangeRow[]): void {
    const log = this.#log(site);
    this.suspects.add(site);
    const before = log.histories.at(-1) as History;
    const isSame = before.origin === origin;
    log.histories.push({
      origin,
      frontier: Frontier.decode(head.treeSize, head.frontier),
      roots: new Map(
        isSame ? [...before.roots].filter(([size]) => size <= head.treeSize) : firstRoots(),
      ),
    });
    log.stoppedMs = undefined;
    log.restore = undefined;
    for (const map of [this.#witnessed, this.#cosigned, this.#findingMs]) {
      for (const key of map.keys()) if (key.startsWith(`${site}|`)) map.delete(key);
    }
    for (const row of rows) this.#seeChange(site, row);
  }

  /** Throws where this message of the site has a cosignature that it must not have. */
  sent(site: string, path: string, body: Buffer): void {
    if (path !== paths.heartbeat || body.byteLength === 0) return;
    const { log } = JSON.parse(body.toString('utf8')) as { readonly log?: { held?: string } };
    if (log?.held === undefined) return;
    const { origin, size, rootHash, signatures } = parseCheckpoint(log.held);
    if (!signatures.some(({ name }) => name === site)) return;
    const what = `${site} cosigns ${size} records of ${origin}`;
    const confirmed = this.#stored.get(`${site}|${origin}`)?.get(headKey(size, rootHash));
    assert.ok(confirmed !== undefined, `${what} that it has not stored`);
    const { restore, stoppedMs = Infinity } = this.#log(site);
    assert.ok(confirmed.has(restore), `${what} after its restore, and has not confirmed them`);
    const sinceMs = this.#findingMs.get(`${site}|${siteOfOrigin(origin)}`) ?? Infinity;
    assert.ok(this.#now() - sinceMs < longestCallMs, `${what}, and has a finding about it`);
    assert.ok(this.#now() - stoppedMs < longestCallMs, `${what}, and its own log has stopped`);
  }

  #seeChange(site: string, { collection, name, value }: ChangeRow): void {
    const at = `${site}|${name}`;
    if (collection === 'audit.checkpoints') this.#seeCheckpoint(site, name, value);
    else if (collection === witnessedCollection) {
      if (value === undefined) this.#witnessed.delete(at);
      else this.#seeWitnessed(site, name, JSON.parse(value.toString('utf8')) as WitnessedLog);
    } else if (collection === 'audit.cosignatures' && value !== undefined) {
      this.#seeCosignature(
        site,
        name,
        JSON.parse(value.toString('utf8')) as { key: string; note: string },
      );
    } else if (collection === restoreCollection && name === latestRestore) {
      this.#log(site).restore = value && hash('sha256', value).slice(0, 16);
    }
  }

  #seeCheckpoint(site: string, name: string, value: Buffer | undefined): void {
    if (value === undefined) return;
    const log = this.#log(site);
    const { origin, size, rootHash } = parseCheckpoint(value.toString('utf8'));
    if (name === 'contradicting') {
      assert.ok(this.suspects.has(site), `${site} stops signing, and its log is honest`);
      log.stoppedMs ??= this.#now();
      return;
    }
    const history = log.histories.at(-1) as History;
    assert.equal(origin, history.origin, `${site} signs another log`);
    assert.equal(
      rootHash.toString('base64'),
      history.roots.get(size),
      `${site} signs ${size} records that its log does not have`,
    );
    assert.equal(log.stoppedMs, undefined, `${site} signs a log that has stopped`);
  }

  #seeWitnessed(site: string, name: string, next: WitnessedLog): void {
    const at = `${site}|${name}`;
    const before = this.#witnessed.get(at);
    this.#witnessed.set(at, next);
    const { key, size, rootHash, finding, confirmed } = next;
    const origin = key.split('+', 1)[0] ?? '';
    const what = `${site} takes ${size} records of ${origin}`;
    if (finding === undefined) this.#findingMs.delete(at);
    else if (finding.reason === 'Restored') this.#findingMs.delete(at);
    else if (!this.#findingMs.has(at)) this.#findingMs.set(at, this.#now());
    if (finding !== undefined && before?.finding?.message !== finding.message) {
      const isJust = this.suspects.has(name) || this.suspects.has(site);
      assert.ok(
        isJust,
        `${site} has a finding about the honest log of ${name}: ${finding.message}`,
      );
    }
    const heads =
      this.#stored.get(`${site}|${origin}`) ?? new Map<string, Set<string | undefined>>();
    this.#stored.set(`${site}|${origin}`, heads);
    const head = headKey(size, Buffer.from(rootHash, 'base64'));
    heads.set(head, (heads.get(head) ?? new Set()).add(confirmed));
    if (size === 0) return;
    // A lying log may show anything to a site that has seen none of it.
    const isFirst = before === undefined || before.size === 0 || before.key !== key;
    if (isFirst && this.suspects.has(name)) return;
    const isAcknowledged = before?.finding !== undefined && finding === undefined;
    const since = isFirst || isAcknowledged ? { size: 0, rootHash: emptyRootText } : before;
    assert.ok(size >= since.size, `${what} after ${since.size}`);
    const isSame = size === since.size && rootHash === since.rootHash;
    const isOne = this.#histories(origin).some(
      ({ roots }) => roots.get(size) === rootHash && roots.get(since.size) === since.rootHash,
    );
    assert.ok(isSame || isOne, `${what}, which do not extend the ${since.size} before`);
  }

  #seeCosignature(
    site: string,
    witness: string,
    { key, note }: { key: string; note: string },
  ): void {
    const at = `${site}|${witness}`;
    const { origin, size, rootHash } = parseCheckpoint(note);
    const what = `${site} keeps a cosignature of ${witness} for ${size} records of ${origin}`;
    const root = rootHash.toString('base64');
    const isOurs = this.#histories(origin).some(({ roots }) => roots.get(size) === root);
    assert.ok(siteOfOrigin(origin) === site && isOurs, `${what}, which are not of its log`);
    const before = this.#cosigned.get(at);
    if (before?.key === key && before.origin === origin) {
      assert.ok(size >= before.size, `${what} after one for ${before.size}`);
    }
    this.#cosigned.set(at, { key, origin, size, rootHash: root });
  }

  #histories(origin: string): readonly History[] {
    return this.#log(siteOfOrigin(origin)).histories.filter((history) => history.origin === origin);
  }

  #log(site: string): SiteLog {
    let log = this.#sites.get(site);
    if (log === undefined) {
      const first = { origin: site, frontier: Frontier.empty(), roots: firstRoots() };
      log = { histories: [first], restore: undefined, stoppedMs: undefined };
      this.#sites.set(site, log);
    }
    return log;
  }
}

const emptyRootText = emptyRoot.toString('base64');

function firstRoots(): Map<number, string> {
  return new Map([[0, emptyRootText]]);
}

function headKey(size: number, rootHash: Buffer): string {
  return `${size} ${rootHash.toString('base64')}`;
}

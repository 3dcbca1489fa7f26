// Routes that read the audit log, for `hansa audit` and for programs that keep a copy of it.

import { TrustDomain } from '../../api/values/trust-domain.ts';
import type { KindName } from '../../core/access/presets.ts';
import type { Cosigned } from '../../core/audit/cosignatures.ts';
import { exportLog, exportPeer, proofFile } from '../../core/audit/export.ts';
import type { Audit } from '../../core/audit/log.ts';
import type { AuditQuery } from '../../core/audit/query.ts';
import { HansaError } from '../../core/errors/error.ts';
import type { AuditLog } from '../../core/store/store.ts';
import { respondInPieces, respondJson } from '../http/exchange.ts';
import type { Route } from '../http/routes.ts';
import { sitePaths } from './paths.ts';

/** The name for the audit log in a Role. It is not a resource and cannot be written. */
export const auditKind: KindName = { kind: 'AuditEvent', plural: 'auditevents' };

const mostEvents = 1000;

export function auditRoutes(parts: {
  readonly audit: Audit;
  readonly auditLog: AuditLog;
  /** The cosignatures of the log. */
  readonly cosigned: () => readonly Cosigned[];
}): readonly Route[] {
  const { audit, auditLog } = parts;
  const may = (verb: 'list' | 'get') =>
    ({ method: 'GET', allow: 'rights', rights: [{ verb, kind: auditKind }] }) as const;
  return [
    {
      ...may('list'),
      path: sitePaths.auditEvents,
      handle: async (exchange) => {
        const { events, before, size } = await audit.list(readQuery(exchange.query));
        respondJson(exchange, 200, { events, size, ...(before === undefined ? {} : { before }) });
      },
    },
    {
      ...may('get'),
      path: sitePaths.auditProof,
      handle: async (exchange, { index: text = '' }) => {
        const index = readCount('index', text);
        if (index >= auditLog.size) {
          throw new HansaError(
            'HANSA_NOT_FOUND',
            `Cannot prove event ${index}: the log has ${auditLog.size} events, numbered from 0.`,
          );
        }
        const earlierSize = readEarlier(exchange.query);
        const proven = await audit.prove(index);
        const file = await proofFile(auditLog, proven, audit.verifier, earlierSize);
        respondJson(exchange, 200, file);
      },
    },
    {
      ...may('get'),
      path: sitePaths.auditCheckpoint,
      handle: async (exchange) => {
        const { note } = await audit.checkpoint();
        respondJson(exchange, 200, { publicKey: audit.verifier.text, checkpoint: note });
      },
    },
    {
      ...may('list'),
      path: sitePaths.auditExport,
      handle: async (exchange) => {
        const peer = readPeer(exchange.query);
        const earlierSize = readEarlier(exchange.query);
        const checkpoint = await audit.checkpoint();
        const pieces =
          peer === undefined
            ? exportLog(auditLog, checkpoint, audit.verifier, parts.cosigned())
            : exportPeer(auditLog, checkpoint, audit.verifier, { peer, earlierSize });
        await respondInPieces(exchange, 200, 'application/x-ndjson', {
          keptBytes: 0,
          isLong: true,
          next: async () => (await pieces.next()).value,
        });
      },
    },
  ];
}

function readQuery(query: URLSearchParams): AuditQuery {
  const text = (name: 'user' | 'verb' | 'kind' | 'name') => {
    const value = query.get(name);
    return value === null || value === '' ? {} : { [name]: value };
  };
  const time = (parameter: string, key: 'sinceMs' | 'untilMs') => {
    const value = query.get(parameter);
    if (value === null || value === '') return {};
    const ms = Date.parse(value);
    if (Number.isNaN(ms)) throw wrong(parameter, value, 'a time such as 2026-01-31T08:00:00Z');
    return { [key]: ms };
  };
  const outcome = query.get('outcome');
  if (outcome !== null && outcome !== 'allow' && outcome !== 'deny' && outcome !== 'error') {
    throw wrong('outcome', outcome, 'allow, deny or error');
  }
  const peer = readPeer(query);
  const before = query.get('before');
  const after = query.get('after');
  return {
    ...text('user'),
    ...text('verb'),
    ...text('kind'),
    ...text('name'),
    ...(peer === undefined ? {} : { peer }),
    ...(outcome === null ? {} : { outcome: outcome }),
    ...time('since', 'sinceMs'),
    ...time('until', 'untilMs'),
    ...(before === null ? {} : { before: readCount('before', before) }),
    ...(after === null ? {} : { after: readCount('after', after) }),
    limit: Math.min(mostEvents, Math.max(1, readCount('limit', query.get('limit') ?? '100'))),
  };
}

/** Other text would match nothing, and a reader would take it for a quiet peer. */
function readPeer(query: URLSearchParams): string | undefined {
  const value = query.get('peer') ?? '';
  if (value === '') return undefined;
  if (TrustDomain.problem(value) !== undefined) throw wrong('peer', value, 'a trust domain');
  return value;
}

/** The size of an earlier checkpoint, for a consistency proof. */
function readEarlier(query: URLSearchParams): number | undefined {
  const text = query.get('earlier');
  return text === null ? undefined : readCount('earlier', text);
}

function readCount(parameter: string, text: string): number {
  if (!/^\d{1,15}$/.test(text)) throw wrong(parameter, text, 'a count');
  return Number(text);
}

function wrong(parameter: string, value: string, accepted: string): HansaError {
  return new HansaError(
    'HANSA_BAD_REQUEST',
    `Cannot read the audit log: ${parameter} is ${JSON.stringify(value.slice(0, 80))}, expected ${accepted}.`,
  );
}

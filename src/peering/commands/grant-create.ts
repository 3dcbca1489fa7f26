// hansa grant create: makes a grant, or changes it into what the flags say.

import { Command, Option } from 'commander';
import { peerDistrust } from '../../api/grants.ts';
import type { Kind } from '../../api/kind.ts';
import {
  defaultScopes,
  federationGrantKind,
  grantScopes,
} from '../../api/kinds/federation-grant.ts';
import { type FederationPeer, federationPeerKind } from '../../api/kinds/federation-peer.ts';
import { serviceOfferKind } from '../../api/kinds/service-offer.ts';
import { apiVersion, type JsonObject, type Resource, timestamp } from '../../api/object.ts';
import { parseTimestamp } from '../../api/values/date-time.ts';
import { HansaError, hasCode } from '../../core/errors/error.ts';
import { parseDurationFlag } from '../../core/command/duration-flag.ts';
import { usageError } from '../../core/command/usage-error.ts';
import { fieldManager, objectPath, type SiteClient } from '../../core/plane/site-client.ts';
import type { CommandKit, OutputFormat } from '../../core/plane/command-kit.ts';
import { printable } from '../../core/command/columns.ts';

export interface CreateOptions {
  readonly peer: string;
  readonly offer: readonly string[];
  readonly identity?: readonly string[];
  readonly anyIdentity?: boolean;
  readonly from?: readonly string[];
  readonly anyAddress?: boolean;
  readonly network?: readonly string[];
  readonly anyNetwork?: boolean;
  readonly scope: readonly string[];
  readonly ttl?: number;
  readonly expiresAt?: string;
}

interface CommandOptions extends CreateOptions {
  readonly forceConflicts?: boolean;
  readonly output: OutputFormat;
}

export function createCommand(kit: CommandKit): Command {
  return new Command('create')
    .description('grant offers of this site to workloads of a peer, or change such a grant')
    .argument('<name>', 'the name of the grant')
    .requiredOption('--peer <trust-domain>', 'whose workloads')
    .requiredOption('--offer <name...>', 'which ServiceOffers')
    .option('--identity <spiffe-id...>', 'which workloads of the peer')
    .option('--any-identity', 'every workload of the peer')
    .option('--from <cidr...>', 'from which addresses')
    .option('--any-address', 'from every address')
    .option('--network <name...>', 'over which networks')
    .option('--any-network', 'over every network')
    .addOption(
      new Option('--scope <scope...>', 'what they may do')
        .choices(grantScopes)
        .default(defaultScopes, defaultScopes.join()),
    )
    .addOption(new Option('--ttl <duration>', 'for how long').argParser(parseDurationFlag))
    .option('--expires-at <time>', 'until when, in RFC 3339')
    .option('--force-conflicts', 'take over fields that others manage')
    .addOption(kit.outputOption(['json', 'yaml']))
    .addHelpText(
      'after',
      `
All three axes (identity, network, address) must match: one that is left out matches nothing.
The scope read admits GET, HEAD and OPTIONS, write every other HTTP method (gRPC too); a connection
without methods needs any scope. No scope includes another.

The flags are the whole grant: the same command with other flags changes it, and what they leave
out is taken back. The peer and the offers must exist; a manifest (hansa apply) may come before them.

Examples:
  hansa grant create bruges-db --peer bruges.example --offer db \\
    --identity spiffe://bruges.example/web --any-network --any-address --ttl 30d
  hansa grant create bruges-db --peer bruges.example --offer db --scope read write \\
    --identity spiffe://bruges.example/web --any-network --from 192.0.2.0/24`,
    )
    .action((name: string, options: CommandOptions, command: Command) =>
      kit.withClient(command, (client) => create(kit, client, name, options)),
    );
}

async function create(
  kit: CommandKit,
  client: SiteClient,
  name: string,
  options: CommandOptions,
): Promise<void> {
  const manifest = grantManifest(name, options, kit.io.clock.now());
  const peer = await knownPeer(client, options.peer);
  await Promise.all(options.offer.map((offer) => checkOffer(client, offer)));
  const { before, object } = await write(client, name, manifest, options.forceConflicts === true);
  // Not the resourceVersion: a controller may have written the status meanwhile.
  const isSame = before?.metadata.generation === object.metadata.generation;
  const what = before === undefined ? 'granted' : isSame ? 'unchanged' : 'configured';
  kit.print(kit.renderValue(object, options.output) ?? `${printable(name)} ${what}`);
  for (const [axis, flags] of emptyAxes(options)) {
    kit.note(`It covers nothing yet: no ${axis} matches. Add ${flags}.`);
  }
  const distrust = peer && peerDistrust(options.peer, peer);
  if (distrust !== undefined) kit.note(`It covers nothing yet: ${printable(distrust)}.`);
}

/** Undefined where the caller may not read peers: then only the site checks. */
async function knownPeer(client: SiteClient, name: string): Promise<FederationPeer | undefined> {
  const peer = await readable(client, federationPeerKind, name, () => {
    throw new HansaError(
      'HANSA_NOT_FOUND',
      `Cannot grant anything to ${name}: it is not a peer of this site. Peers: hansa peer list. To invite it: hansa peer invite --for ${name}`,
    );
  });
  return peer as FederationPeer | undefined;
}

async function checkOffer(client: SiteClient, name: string): Promise<void> {
  await readable(client, serviceOfferKind, name, () => {
    throw new HansaError(
      'HANSA_NOT_FOUND',
      `Cannot grant ${name}: this site has no ServiceOffer of that name. Offers: hansa get serviceoffers`,
    );
  });
}

async function readable(
  client: SiteClient,
  kind: Kind,
  name: string,
  missing: () => undefined = () => undefined,
): Promise<Resource | undefined> {
  try {
    return await client.get(kind, name);
  } catch (error) {
    if (hasCode(error, 'HANSA_NOT_FOUND')) return missing();
    if (hasCode(error, 'HANSA_FORBIDDEN')) return undefined;
    throw error;
  }
}

interface Write {
  readonly before: Resource | undefined;
  readonly object: Resource;
}

/** A status that a controller writes meanwhile makes a replacement late; it does not write often. */
const mostAttempts = 5;

/**
 * The grant becomes what the manifest says and nothing else. Server-side apply says so only of what
 * it owns: items of a list that others own would stay, and a scope that the flags left out with
 * them. So a grant that others wrote too is replaced.
 */
async function write(
  client: SiteClient,
  name: string,
  manifest: JsonObject,
  force: boolean,
): Promise<Write> {
  for (let attempt = 1; ; attempt++) {
    const before = await readable(client, federationGrantKind, name);
    const owners = ownersOf(before);
    const isApplied = owners.every(
      ({ manager, operation }) => manager === fieldManager && operation === 'Apply',
    );
    if (before === undefined || (owners.length > 0 && isApplied)) {
      return { before, object: (await client.apply(federationGrantKind, name, manifest)).object };
    }
    const others = new Set(
      owners.map(({ manager }) => manager).filter((one) => one !== fieldManager),
    );
    if (others.size > 0 && !force) {
      throw new HansaError(
        'HANSA_CONFLICT',
        `Cannot change the grant ${name}: ${[...others].join(' and ')} manages fields of it. To take them over: --force-conflicts.`,
      );
    }
    try {
      const { body } = await client.request({
        method: 'PUT',
        path: objectPath(federationGrantKind, name),
        query: { fieldManager, fieldValidation: 'Strict' },
        body: { ...before, spec: manifest['spec'] },
      });
      return { before, object: body as Resource };
    } catch (error) {
      if (!hasCode(error, 'HANSA_CONFLICT') || attempt === mostAttempts) throw error;
    }
  }
}

/** Who wrote the spec. */
function ownersOf(grant: Resource | undefined) {
  return (grant?.metadata.managedFields ?? []).filter(
    ({ subresource }) => subresource === undefined || subresource === '',
  );
}

function emptyAxes(options: CreateOptions): (readonly [string, string])[] {
  const axes: (readonly [string, string, boolean])[] = [
    [
      'identity',
      '--identity or --any-identity',
      options.anyIdentity === true || (options.identity ?? []).length > 0,
    ],
    // Until there are networks, only every network is one.
    ['network', '--any-network', options.anyNetwork === true],
    [
      'address',
      '--from or --any-address',
      options.anyAddress === true || (options.from ?? []).length > 0,
    ],
  ];
  return axes.filter(([, , matches]) => !matches).map(([axis, flags]) => [axis, flags]);
}

export function grantManifest(name: string, options: CreateOptions, nowMs: number): JsonObject {
  if (options.ttl !== undefined && options.expiresAt !== undefined) {
    throw usageError('Give either --ttl or --expires-at, not both.');
  }
  if (options.expiresAt !== undefined && parseTimestamp(options.expiresAt) === undefined) {
    throw new HansaError(
      'HANSA_USAGE',
      `--expires-at is ${JSON.stringify(options.expiresAt)}: accepted is a time such as 2027-01-01T00:00:00Z.`,
    );
  }
  const axis = (key: string, list: readonly string[] | undefined, any: boolean | undefined) => ({
    ...(list === undefined ? {} : { [key]: list }),
    unrestricted: any === true,
  });
  const expiresAt = options.ttl === undefined ? options.expiresAt : timestamp(nowMs + options.ttl);
  return {
    apiVersion,
    kind: federationGrantKind.kind,
    metadata: { name },
    spec: {
      peer: options.peer,
      scopes: options.scope,
      offers: options.offer,
      nodeInstances: axis('ids', options.identity, options.anyIdentity),
      networks: axis('ids', options.network, options.anyNetwork),
      sourceCIDRs: axis('cidrs', options.from, options.anyAddress),
      ...(expiresAt === undefined ? {} : { expiresAt }),
    },
  };
}

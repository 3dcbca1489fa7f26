// Fuzz targets for requests of Envoy on the workload socket: SDS and ext_authz.

import { type DescMessage, fromBinary, type MessageShape } from '@bufbuild/protobuf';
import { CheckRequestSchema } from '../../../proto/gen/ext_authz_pb.ts';
import { DeltaDiscoveryRequestSchema, DiscoveryRequestSchema } from '../../../proto/gen/sds_pb.ts';
import { SpiffeId } from '../../../src/api/values/spiffe-id.ts';
import { HansaError } from '../../../src/core/errors/error.ts';
import { decideAccess } from '../../../src/trust/authorization/ext-authz.ts';
import { Delta, fetched, StateOfTheWorld } from '../../../src/trust/sds/secret-stream.ts';
import { bundles, readDelta, readState, secrets } from '../../../src/trust/sds/test-secrets.ts';
import { secretType } from '../../../src/trust/sds/workload-secrets.ts';
import { questionOf } from '../../../src/trust/authorization/authorization-api.ts';
import type { Target } from '../target.ts';

const web = SpiffeId.parse('spiffe://lubeck.example/web');
const nowMs = Date.UTC(2026, 0);
const names = [
  'default',
  'ROOTCA',
  'ALL',
  web.toString(),
  'spiffe://lubeck.example/batch',
  'spiffe://lubeck.example',
  'spiffe://bruges.example',
  'spiffe://spire.example',
];
/** Of bruges nobody may be let in. */
const held = await secrets({
  federated: [bundles.bruges, bundles.spire],
  peers: { 'bruges.example': [] },
});

/** As the transport does it: what is no message never reaches the service. */
function decoded<S extends DescMessage>(schema: S, input: Buffer): MessageShape<S> {
  try {
    return fromBinary(schema, input);
  } catch (cause) {
    throw new HansaError('HANSA_BAD_REQUEST', 'It is no message.', { cause });
  }
}

function expectKnown(given: readonly { readonly [field: string]: unknown }[] = []): void {
  for (const { name, matchers } of given) {
    const isClosed = JSON.stringify(matchers) === '["exact spiffe://nobody.invalid"]';
    if (!names.includes(String(name)) && !isClosed) throw new Error(`${String(name)} is given`);
    if (name === 'spiffe://bruges.example' && !isClosed) throw new Error('bruges is let in');
  }
}

export const envoyTargets: readonly Target[] = [
  {
    name: 'sds-request',
    grammar: 'protobuf',
    dictionary: [...names, secretType, '1', '*'],
    maxBytes: 8_000,
    run: (input) => {
      const request = decoded(DiscoveryRequestSchema, input);
      const stream = new StateOfTheWorld();
      stream.update(held);
      for (let i = 0; i < 2; i++) {
        stream.request(request);
        expectKnown(readState(stream.next())?.secrets);
      }
      expectKnown(readState(fetched(request, held))?.secrets);
      if (stream.missing.some((name) => held.get(name) !== undefined)) throw new Error('missing');
    },
  },
  {
    name: 'sds-delta-request',
    grammar: 'protobuf',
    dictionary: [...names, secretType, '1', '*'],
    maxBytes: 8_000,
    run: (input) => {
      const request = decoded(DeltaDiscoveryRequestSchema, input);
      const stream = new Delta();
      stream.update(held);
      for (let i = 0; i < 2; i++) {
        stream.request(request);
        expectKnown(readDelta(stream.next())?.secrets);
      }
      void stream.missing;
    },
  },
  {
    name: 'ext-authz-check',
    grammar: 'protobuf',
    dictionary: ['offer', 'db', 'spiffe://bruges.example/web', '-----BEGIN%20CERTIFICATE-----%0A'],
    maxBytes: 70_000,
    run: (input) => {
      const question = questionOf(decoded(CheckRequestSchema, input));
      const offers = new Map([['db', { spec: { spiffeID: web.toString() } } as never]]);
      const decision = decideAccess(question, {
        askers: [{ id: web, federatesWith: ['*'], federatesWithSelector: undefined }],
        federationState: {
          federations: [],
          labels: new Map(),
          bundleOf: () => undefined,
          keptByPeering: new Set(),
          peers: new Map(),
          grantsByPeer: new Map(),
          offers,
        },
        bundles: { bundleFor: () => undefined },
        nowMs,
      });
      if (decision.allowed) throw new Error('somebody was let in without a grant');
      if (decision.id === undefined) throw new HansaError('HANSA_FORBIDDEN', decision.reason);
    },
  },
];

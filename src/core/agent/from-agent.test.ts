import { create, type MessageInitShape, toBinary } from '@bufbuild/protobuf';
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { FromAgentSchema } from '../../../proto/gen/agent_pb.ts';
import { agentKind } from '../../api/kinds/agent.ts';
import { validateStructure } from '../../api/schema/validate.ts';
import { parseFromAgent } from './from-agent.ts';

type Said = NonNullable<
  Exclude<MessageInitShape<typeof FromAgentSchema>, { $typeName: string }>['message']
>;

const parsed = (message: Said) =>
  parseFromAgent(toBinary(FromAgentSchema, create(FromAgentSchema, { message })));

suite('what an agent says of itself', () => {
  test('always fits the status of an Agent, which clients of the API validate', () => {
    const schema = agentKind.status;
    assert.ok(schema !== undefined);
    for (const text of ['h', 'ä', '\u{1f6a2}', '\u001b[31m']) {
      const hello = parsed({
        case: 'hello',
        value: { version: text.repeat(2000), host: text.repeat(2000), session: new Uint8Array(16) },
      });
      const report = parsed({
        case: 'report',
        value: {
          entries: 2 ** 32 - 1,
          workloads: 2 ** 32 - 1,
          problems: Array<string>(16).fill(text.repeat(2000)),
        },
      });
      assert.ok(hello.kind === 'hello' && report.kind === 'report');
      const { version, host } = hello.hello;
      assert.deepEqual(validateStructure(schema, { version, host, ...report.report }), []);
    }
  });
});

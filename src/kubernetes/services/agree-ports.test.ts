import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { SeededRandom } from '../../core/clock/seeded-random.ts';
import { agreePorts, mostPorts } from './agree-ports.ts';
import { keyOfMember, type MemberPort } from './member-service.ts';
import { below, httpPort, memberService } from './test-member-services.ts';

const port = (name: string, number: number, protocol: MemberPort['protocol'] = 'TCP') => ({
  ...httpPort,
  name,
  port: number,
  protocol,
});

const shown = (ports: readonly Pick<MemberPort, 'name' | 'port' | 'protocol'>[]): string[] =>
  ports.map(({ name, port: number, protocol }) => `${name}:${number}/${protocol}`);

describe('the ports of a federated Service', () => {
  test('are those of all members', () => {
    const { ports, conflicts } = agreePorts([
      memberService('b', '2026-02-01T00:00:00Z', { ports: [port('grpc', 9000)] }),
      memberService('a', '2026-01-01T00:00:00Z', { ports: [port('http', 80)] }),
    ]);
    assert.deepEqual(shown(ports), ['http:80/TCP', 'grpc:9000/TCP']);
    assert.equal(conflicts.size, 0);
  });

  test('are decided by the oldest member, and a younger one that differs is left out of that port', () => {
    const older = memberService('b', '2026-01-01T00:00:00Z', { ports: [port('http', 80)] });
    const ports = [port('http', 8080), port('dns', 53, 'UDP')];
    const younger = memberService('a', '2026-02-01T00:00:00Z', { ports });
    const agreed = agreePorts([younger, older]);
    assert.deepEqual(shown(agreed.ports), ['http:80/TCP', 'dns:53/UDP']);
    const [conflict] = agreed.conflicts.get(keyOfMember(younger)) ?? [];
    assert.deepEqual([conflict?.port.port, conflict?.taken?.winner], [8080, keyOfMember(older)]);
    assert.deepEqual(
      agreed.mappings.get(keyOfMember(younger))?.map(({ own }) => own.name),
      ['dns'],
    );
  });

  test('differ in protocol: the oldest wins too', () => {
    const agreed = agreePorts([
      memberService('a', '2026-01-01T00:00:00Z', { ports: [port('', 53, 'UDP')] }),
      memberService('b', '2026-01-01T00:00:00Z', { ports: [port('', 53, 'TCP')] }),
    ]);
    assert.deepEqual(shown(agreed.ports), [':53/UDP']);
    assert.equal(agreed.conflicts.size, 1);
  });

  test('match by number and protocol where their names differ', () => {
    const agreed = agreePorts([
      memberService('a', '2026-01-01T00:00:00Z', { ports: [port('', 80)] }),
      memberService('b', '2026-02-01T00:00:00Z', { ports: [port('web', 80)] }),
    ]);
    assert.deepEqual(shown(agreed.ports), [':80/TCP']);
    assert.equal(agreed.mappings.size, 2);
  });

  test('get a name where there are several, and never a name that a member chose', () => {
    const agreed = agreePorts([
      memberService('a', '2026-01-01T00:00:00Z', { ports: [port('', 80)] }),
      memberService('b', '2026-02-01T00:00:00Z', { ports: [port('tcp-80', 81)] }),
    ]);
    assert.deepEqual(shown(agreed.ports), ['tcp-80-2:80/TCP', 'tcp-80:81/TCP']);
  });

  test('are bounded', () => {
    const ports = Array.from({ length: 300 }, (_, i) => port(`p${i}`, i + 1));
    const member = memberService('a', '2026-01-01T00:00:00Z', { ports });
    const agreed = agreePorts([member]);
    assert.equal(agreed.ports.length, mostPorts);
    const conflicts = agreed.conflicts.get(keyOfMember(member)) ?? [];
    assert.equal(conflicts.length, 300 - mostPorts);
    assert.ok(conflicts.every(({ taken }) => taken === undefined));
  });

  test('cost a few looks at each port, however many members there are', () => {
    let looks = 0;
    const counted = (number: number): MemberPort => ({
      ...port(`p${number}`, number),
      get port() {
        looks++;
        return number;
      },
    });
    const members = Array.from({ length: 200 }, (_, at) =>
      memberService(`c${at}`, '2026-01-01T00:00:00Z', {
        ports: Array.from({ length: 50 }, (__, own) => counted(own + 1)),
      }),
    );
    agreePorts(members);
    assert.ok(looks > 0 && looks <= 3 * 200 * 50, `${looks} looks`);
  });

  test('are the same in every cluster, legal, and complete (seeded)', () => {
    const random = new SeededRandom('ports');
    for (let round = 0; round < 300; round++) {
      const members = Array.from({ length: 1 + below(random, 5) }, (_, i) =>
        memberService(`c${i}`, `2026-01-0${1 + below(random, 3)}T00:00:00Z`, {
          ports: Array.from({ length: 1 + below(random, 3) }, () =>
            port(
              ['', 'http', 'tcp-80', 'b'][below(random, 4)] ?? '',
              80 + below(random, 3),
              below(random, 2) === 0 ? 'TCP' : 'UDP',
            ),
          ),
        }),
      );
      const agreed = agreePorts(members);
      assert.deepEqual(agreePorts(members.toReversed()), agreed);
      const names = agreed.ports.map(({ name }) => name);
      assert.equal(new Set(names).size, names.length);
      assert.ok(names.length === 1 || !names.includes(''));
      const numbers = agreed.ports.map((each) => `${each.port}/${each.protocol}`);
      assert.equal(new Set(numbers).size, numbers.length);
      for (const member of members) {
        const key = keyOfMember(member);
        const told = agreed.mappings.get(key)?.length ?? 0;
        assert.equal(told + (agreed.conflicts.get(key)?.length ?? 0), member.ports.length);
      }
    }
  });
});

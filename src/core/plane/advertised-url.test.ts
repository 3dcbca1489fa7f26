import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { type CoreErrorCode, HansaError } from '../errors/error.ts';
import type { Examination } from '../../trust/federation/examine-endpoint.ts';
import { checkAdvertised, judgeAdvertised, warnUnlessAdvertised } from './advertised-url.ts';
import type { SiteClient } from './site-client.ts';

const reached: Examination = {
  trustDomain: 'lubeck.example',
  source: 'https_spiffe',
  url: 'https://lubeck.example:8443/',
  addresses: [],
};

function failed(failure: NonNullable<Examination['failure']>): Examination {
  return { ...reached, failure };
}

function clientThat(answer: () => Examination): SiteClient {
  return {
    request: async () => ({ status: 200, body: answer() }),
  } as unknown as SiteClient;
}

async function warned(answer: () => Examination): Promise<string[]> {
  const notes: string[] = [];
  const cli = { note: (text: string) => void notes.push(text) };
  await warnUnlessAdvertised(cli, clientThat(answer));
  return notes;
}

suite('the advertised URL', () => {
  test('is well where the site answers there itself', () => {
    assert.equal(judgeAdvertised(reached).level, 'ok');
  });

  test('gets a warning with the reason and what to do where it does not answer', () => {
    const classes = ['dns', 'connect', 'unreachable', 'identity', 'http'] as const;
    const remedies = classes.map((name) => {
      const finding = judgeAdvertised(failed({ class: name, message: 'no such name' }));
      assert.equal(finding.level, 'warning');
      assert.match(finding.text, /https:\/\/lubeck\.example:8443\/: no such name/);
      assert.match(finding.remedy ?? '', /--advertise/);
      return finding.remedy;
    });
    assert.equal(new Set(remedies).size, 4);
  });

  test('that shows escape sequences prints none', () => {
    const { text } = judgeAdvertised(failed({ class: 'http', message: '\u001b[2J' }));
    // oxlint-disable-next-line no-control-regex -- that is what must not be there
    assert.doesNotMatch(text, /\u001b/);
  });

  test('is not judged where the caller may not ask, or an older site does not know how', async () => {
    for (const code of ['HANSA_FORBIDDEN', 'HANSA_NOT_FOUND', 'HANSA_TOO_MANY_REQUESTS'] as const) {
      assert.equal(await checkAdvertised(clientThat(() => refuse(code))), undefined);
    }
    await assert.rejects(checkAdvertised(clientThat(() => refuse('HANSA_UNREACHABLE'))));
  });
});

suite('an invitation', () => {
  test('comes with a warning where peers would not reach the site', async () => {
    const [note = ''] = await warned(() => failed({ class: 'dns', message: 'no such name' }));
    assert.match(
      note,
      /^Warning: this site cannot reach its advertised URL .* Add lubeck\.example to DNS/,
    );
  });

  test('comes without one where the site answers or cannot tell', async () => {
    assert.deepEqual(await warned(() => reached), []);
    assert.deepEqual(await warned(() => refuse('HANSA_UNREACHABLE')), []);
  });
});

function refuse(code: CoreErrorCode): never {
  throw new HansaError(code, 'refused');
}

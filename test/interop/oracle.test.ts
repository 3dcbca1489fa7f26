// Compares the API of a site with kube-apiserver (the oracle): both get the same requests, and must
// return the same responses, except for the deviations in deviations.ts.
//
//   ORACLE_SEED=7 node --test test/interop/oracle.test.ts      runs one seed
//   ORACLE_STORIES=500 node --test test/interop/oracle.test.ts runs 500 seeds
//   ORACLE_FIRST=1000 ORACLE_STORIES=50 node --test …          starts at seed 1000

import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { allKinds } from '../../src/test-planes.ts';
import { badInput } from './bad-input.ts';
import { compareStory, type Difference, type Side } from './compare.ts';
import { crdsOf } from './crds.ts';
import { type KubeApiserver, startKubeApiserver } from './kube-apiserver.ts';
import { type OracleSite, startOracleSite } from './oracle-site.ts';
import { storyOf } from './story.ts';
import { missingTools } from './tool.ts';
import { generateTranscript, roles, widgets } from './transcript.ts';
import { widget } from './widget.ts';

const skip = await missingTools('etcd', 'kube-apiserver');

const STEPS = 60;
const only = process.env['ORACLE_SEED'];
const first = Number(process.env['ORACLE_FIRST'] ?? 1);
const stories = Number(process.env['ORACLE_STORIES'] ?? 12);
const seeds =
  only === undefined
    ? Array.from({ length: stories }, (_, index) => first + index)
    : [Number(only)];

/** What a person needs to see of a fault: where, what each said, and how to ask again. */
function told(faults: readonly Difference[]): string {
  return faults
    .slice(0, 3)
    .map(({ index, what, places, exchanges }) => {
      const [[oracle, asked] = [], [site, answered] = []] = Object.entries(exchanges);
      const request = asked?.request;
      return [
        `step ${index}, ${what}: ${request?.method} ${request?.path}`,
        `  body: ${String(request?.body ?? '').slice(0, 1000)}`,
        ...places
          .slice(0, 6)
          .map(({ path, one, other }) =>
            `  ${path}: ${JSON.stringify(one)} ≠ ${JSON.stringify(other)}`.slice(0, 1000),
          ),
        `  ${oracle}: ${asked?.answer.status} ${asked?.answer.text.slice(0, 600)}`,
        `  ${site}: ${answered?.answer.status} ${answered?.answer.text.slice(0, 600)}`,
      ].join('\n');
    })
    .join('\n');
}

describe('a site answers as kube-apiserver does', { skip }, () => {
  let kube: KubeApiserver;
  let site: OracleSite;
  let sides: readonly [Side, Side];

  before(async () => {
    kube = await startKubeApiserver(crdsOf(widget));
    site = await startOracleSite([...allKinds, widget]);
    sides = [
      { name: 'kube-apiserver', client: kube.client },
      { name: 'site', client: site.client },
    ];
  });
  after(async () => {
    await site?.stop();
    await kube?.stop();
  });

  for (const { name, story } of only === undefined ? badInput : []) {
    it(`to ${name}`, async () => {
      await site.compact();
      const faults = await compareStory(sides, story);
      assert.equal(faults.length, 0, told(faults));
    });
  }

  for (const seed of seeds) {
    it(`to ${STEPS} random steps of seed ${seed}`, async () => {
      const subjects = seed % 4 === 0 ? [widgets, roles] : [widgets];
      const story = storyOf(generateTranscript(seed, STEPS, subjects), subjects);
      const faults = await compareStory(sides, story);
      assert.equal(faults.length, 0, told(faults));
    });
  }
});

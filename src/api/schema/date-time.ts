// The two readings of RFC 3339 that kube-apiserver has: the lenient one of the schema format
// `date-time`, and the strict one of timestamps in metadata.

import { quoteGo } from './go-text.ts';

const timeOfDay = /^([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))$/;
const date = /^([0-9]{4})-([0-9]{2})-([0-9]{2})$/;

function daysIn(year: number, month: number): number {
  return new Date(Date.UTC(2000 + (year % 400), month, 0)).getUTCDate();
}

function isDate(text: string): boolean {
  const match = date.exec(text);
  if (match === null) return false;
  const [year, month, day] = [Number(match[1]), Number(match[2]), Number(match[3])];
  return month >= 1 && month <= 12 && day >= 1 && day <= daysIn(year, month);
}

/** strfmt.IsDateTime of kube-openapi: RFC 3339 section 5.6, in either case. */
export function validateDateTime(text: string): boolean {
  const [day, time] = text.toLowerCase().split('t', 2);
  if (day === undefined || time === undefined || !isDate(day)) return false;
  const match = timeOfDay.exec(time);
  if (match === null) return false;
  return (match[1] ?? '') <= '23' && (match[2] ?? '') <= '59' && (match[3] ?? '') <= '59';
}

const timestampGrammar =
  /^([0-9]{4}-[0-9]{2}-[0-9]{2})T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]([.,][0-9]+)?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$/;

/** The moment in milliseconds, or undefined: what Go's time.Parse(time.RFC3339, text) accepts. */
export function parseTimestamp(text: string): number | undefined {
  const match = timestampGrammar.exec(text);
  if (match === null || !isDate(match[1] ?? '')) return undefined;
  const moment = Date.parse(text.replace(',', '.'));
  return Number.isNaN(moment) ? undefined : moment;
}

interface LayoutElement {
  readonly layout: string;
  readonly grammar: RegExp;
  readonly range?: { readonly name: string; readonly from: number; readonly to: number };
}

const twoDigits = /^[0-9]{2}/;
const literal = (layout: string): LayoutElement => ({ layout, grammar: new RegExp(`^${layout}`) });

/** The elements of Go's layout 2006-01-02T15:04:05Z07:00, in the order in which it reads them. */
const layoutElements: readonly LayoutElement[] = [
  { layout: '2006', grammar: /^[0-9]{4}/ },
  literal('-'),
  { layout: '01', grammar: twoDigits, range: { name: 'month', from: 1, to: 12 } },
  literal('-'),
  { layout: '02', grammar: twoDigits },
  literal('T'),
  { layout: '15', grammar: twoDigits, range: { name: 'hour', from: 0, to: 23 } },
  literal(':'),
  { layout: '04', grammar: twoDigits, range: { name: 'minute', from: 0, to: 59 } },
  literal(':'),
  {
    layout: '05',
    grammar: /^([0-9]{2})([.,][0-9]+)?/,
    range: { name: 'second', from: 0, to: 59 },
  },
  { layout: 'Z07:00', grammar: /^(Z|[+-][0-9]{2}:[0-9]{2})/ },
];

/** Why Go's time.Parse refuses a text that `parseTimestamp` refuses, in its words. */
export function timestampProblem(text: string): string {
  let rest = text;
  for (const { layout, grammar, range } of layoutElements) {
    const found = grammar.exec(rest);
    if (found === null) {
      return `parsing time ${quoteGo(text)} as "2006-01-02T15:04:05Z07:00": cannot parse ${quoteGo(rest)} as "${layout}"`;
    }
    const number = Number(found[1] ?? found[0]);
    if (range !== undefined && (number < range.from || number > range.to)) {
      return `parsing time ${quoteGo(text)}: ${range.name} out of range`;
    }
    rest = rest.slice(found[0].length);
  }
  if (rest !== '') return `parsing time ${quoteGo(text)}: extra text: ${quoteGo(rest)}`;
  return `parsing time ${quoteGo(text)}: day out of range`;
}

// Events through the npm client `resend`, as a program that already uses it would see us.
// Started by ../run, which sets RESEND_BASE_URL and RESEND_API_KEY.

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import { Resend } from 'resend';
import { ok, refused, TIME, UUID } from './answers.js';

const resend = new Resend(process.env.RESEND_API_KEY);
const unique = (text) => `${text}.${randomUUID()}`;

async function create(name, schema) {
  const data = ok(await resend.events.create({ name, schema }));
  assert.deepEqual(Object.keys(data).sort(), ['id', 'object']);
  assert.equal(data.object, 'event');
  assert.match(data.id, UUID);
  return data.id;
}

test('an event is created and read back by id and by name', async () => {
  const name = unique('user.created');
  const schema = { plan: 'string', seats: 'number', trial: 'boolean', since: 'date' };
  const id = await create(name, schema);
  for (const key of [id, name]) {
    const event = ok(await resend.events.get(key));
    assert.equal(event.object, 'event');
    assert.equal(event.id, id);
    assert.equal(event.name, name);
    assert.deepEqual(event.schema, schema);
    assert.match(event.created_at, TIME);
  }
});

test('a schema is optional', async () => {
  for (const schema of [undefined, null]) {
    const id = await create(unique('no.schema'), schema);
    assert.equal(ok(await resend.events.get(id)).schema, null);
  }
  const id = await create(unique('empty.schema'), {});
  assert.deepEqual(ok(await resend.events.get(id)).schema ?? {}, {});
});

const names = [
  'with spaces in it',
  ' leading and trailing ',
  'a/b/c',
  '/leading/slash',
  'trailing/slash/',
  'double//slash',
  'Grüße.aus.München',
  '注文.作成',
  'party 🎉 popper',
  'e\u0301 is not \u00e9',
  '100%',
  '%2F is not a slash',
  'a+b c',
  'question?mark=1&x=2',
  'hash#tag',
  'semi;colon:and@sign',
  'quote"back\\slash\'',
  'tab\tand\nnewline',
  'svc',
  'SVC:upper',
  ' svc:after a space',
  "Robert'); DROP TABLE events;--",
  'x'.repeat(900),
];

for (const stem of names) {
  test(`the name ${JSON.stringify(stem.slice(0, 40))} survives`, async () => {
    const name = stem.endsWith('/') || stem.endsWith(' ') ? unique('').slice(1) + stem : stem + unique('');
    const id = await create(name);
    const byName = ok(await resend.events.get(name));
    assert.equal(byName.id, id);
    assert.equal(byName.name, name);
    assert.equal(ok(await resend.events.update(name, { schema: { k: 'date' } })).id, id);
    assert.equal(ok(await resend.events.remove(name)).id, id);
    refused(await resend.events.get(name), 404, 'not_found');
  });
}

test('a name that is also a word of the API is only a name', async () => {
  const id = await create('send');
  assert.equal(ok(await resend.events.get('send')).id, id);
  assert.equal(ok(await resend.events.remove('send')).deleted, true);
});

test('creating a name again gives a new id, and the newest is in force', async () => {
  const name = unique('again');
  const first = await create(name, { a: 'string' });
  const second = await create(name, { b: 'number' });
  assert.notEqual(first, second);
  assert.equal(ok(await resend.events.get(name)).id, second);
  assert.deepEqual(ok(await resend.events.get(name)).schema, { b: 'number' });
  assert.deepEqual(ok(await resend.events.get(first)).schema, { a: 'string' });
  assert.equal(ok(await resend.events.remove(name)).id, second);
  assert.equal(ok(await resend.events.get(name)).id, first);
});

test('updating replaces the schema, and null clears it', async () => {
  const name = unique('updated');
  const id = await create(name, { old: 'string' });
  const answer = ok(await resend.events.update(id, { schema: { fresh: 'boolean' } }));
  assert.equal(answer.object, 'event');
  assert.equal(answer.id, id);
  const event = ok(await resend.events.get(id));
  assert.deepEqual(event.schema, { fresh: 'boolean' });
  assert.equal(event.name, name);
  assert.match(event.updated_at, TIME);
  ok(await resend.events.update(name, { schema: null }));
  assert.equal(ok(await resend.events.get(id)).schema, null);
});

test('deleting says so, and then the event is gone', async () => {
  const id = await create(unique('deleted'));
  assert.deepEqual(ok(await resend.events.remove(id)), { object: 'event', id, deleted: true });
  refused(await resend.events.get(id), 404, 'not_found');
  refused(await resend.events.update(id, { schema: null }), 404, 'not_found');
  refused(await resend.events.remove(id), 404, 'not_found');
});

test('the list is paged in both directions without a gap or a repetition', async () => {
  const created = [];
  for (let i = 0; i < 25; i++) created.push(await create(unique(`page.${i}`)));
  const whole = await walk((page) => ({ limit: 100, after: page?.at(-1)?.id }));
  const all = whole.flat().map((item) => item.id);
  assert.equal(new Set(all).size, all.length);
  for (const id of created) assert.ok(all.includes(id), `${id} is not listed`);

  const first = ok(await resend.events.list({ limit: 7 }));
  assert.equal(first.object, 'list');
  assert.equal(first.has_more, true);
  assert.deepEqual(first.data.map((item) => item.id), all.slice(0, 7));
  for (const item of first.data) {
    assert.deepEqual(Object.keys(item).sort(), ['created_at', 'defined_by_use', 'id', 'name', 'schema', 'updated_at']);
  }

  const forwards = await walk((page) => ({ limit: 7, after: page?.at(-1)?.id }));
  assert.deepEqual(forwards.flat().map((item) => item.id), all);
  assert.ok(forwards.slice(0, -1).every((page) => page.length === 7));

  // `before` walks back towards the head of the list; each page reads in the list's own order.
  const last = all.at(-1);
  const backwards = await walk((page) => ({ limit: 7, before: page ? page[0].id : last }));
  assert.deepEqual(backwards.reverse().flat().map((item) => item.id), all.slice(0, -1));
});

test('without a limit the list is whole, and its end says so', async () => {
  const whole = await walk((page) => ({ limit: 100, after: page?.at(-1)?.id }));
  const all = ok(await resend.events.list());
  assert.ok(all.data.length > 20);
  const known = whole.flat().map((item) => item.id);
  assert.deepEqual(all.data.map((item) => item.id).slice(-known.length), known);
  const end = ok(await resend.events.list({ limit: 10, after: whole.flat().at(-1).id }));
  assert.deepEqual(end.data, []);
  assert.equal(end.has_more, false);
});

// All pages of the list; `next` tells how to ask for the one after `page`.
async function walk(next) {
  const pages = [];
  for (let page; ; ) {
    const options = Object.fromEntries(Object.entries(next(page)).filter(([, value]) => value !== undefined));
    const answer = ok(await resend.events.list(options));
    page = answer.data;
    pages.push(page);
    if (!answer.has_more) return pages;
    assert.ok(pages.length < 1000, 'the list does not end');
  }
}

for (const [what, options] of [
  ['a limit of 0', { limit: 0 }],
  ['a limit over 100', { limit: 101 }],
  ['a limit that is no number', { limit: 'ten' }],
  ['a cursor that is no id', { after: 'yesterday' }],
  ['after and before at once', { after: randomUUID(), before: randomUUID() }],
]) {
  test(`listing with ${what} is refused`, async () => {
    refused(await resend.events.list(options), 422, 'invalid_parameter');
  });
}

test('a missing name is named', async () => {
  assert.match(refused(await resend.events.create({}), 422, 'missing_required_field'), /name/);
  assert.match(refused(await resend.events.create({ name: null }), 422, 'missing_required_field'), /name/);
});

test('a misspelt event is not taken for one', async () => {
  refused(await resend.events.create({ event: 'user.created', email: 'a@example.com' }), 422, 'missing_required_field');
});

for (const [what, name] of [
  ['the reserved prefix', 'svc:mine'],
  ['nothing but the reserved prefix', 'svc:'],
  ['no characters', ''],
  ['a number', 7],
  ['a list', ['user.created']],
  ['1025 characters', 'x'.repeat(1025)],
  ['a NUL', 'a\u0000b'],
]) {
  test(`a name with ${what} is refused`, async () => {
    assert.match(refused(await resend.events.create({ name }), 422, 'validation_error'), /name/);
  });
}

test('a name of exactly 1024 characters is fine, however wide they are', async () => {
  const name = '🎉'.repeat(1024 - 36) + randomUUID();
  const id = await create(name);
  assert.equal(ok(await resend.events.get(id)).name, name);
});

for (const [what, schema] of [
  ['an unknown type', { plan: 'integer' }],
  ['a type in the wrong case', { plan: 'String' }],
  ['a nested object', { plan: { kind: 'string' } }],
  ['a list of types', { plan: ['string'] }],
  ['a null type', { plan: null }],
]) {
  test(`a schema with ${what} is refused, naming the key`, async () => {
    const answer = await resend.events.create({ name: unique('bad.schema'), schema });
    assert.match(refused(answer, 422, 'validation_error'), /plan/);
  });
}

for (const schema of ['string', 7, true, ['string']]) {
  test(`a schema that is ${JSON.stringify(schema)} is refused`, async () => {
    const answer = await resend.events.create({ name: unique('bad.schema'), schema });
    assert.match(refused(answer, 422, 'validation_error'), /schema/);
  });
}

test('a bad update is refused and changes nothing', async () => {
  const id = await create(unique('kept'), { plan: 'string' });
  refused(await resend.events.update(id, { schema: { plan: 'text' } }), 422, 'validation_error');
  refused(await resend.events.update(id, {}), 422, 'missing_required_field');
  assert.deepEqual(ok(await resend.events.get(id)).schema, { plan: 'string' });
});

test('a key that is not one is refused', async () => {
  for (const key of ['re_wrong', `${process.env.RESEND_API_KEY}x`, process.env.RESEND_API_KEY.slice(0, -1)]) {
    const stranger = new Resend(key);
    refused(await stranger.events.create({ name: 'a' }), 403, 'invalid_api_key');
    refused(await stranger.events.list(), 403, 'invalid_api_key');
  }
});

test('a base address that ends in a slash works too', async () => {
  const slashed = new Resend(process.env.RESEND_API_KEY, { baseUrl: `${process.env.RESEND_BASE_URL}/` });
  const data = ok(await slashed.events.create({ name: unique('slashed') }));
  assert.equal(ok(await slashed.events.get(data.id)).id, data.id);
});

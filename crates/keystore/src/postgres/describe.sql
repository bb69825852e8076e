SELECT line FROM (
    SELECT format('table %s %s%s', c.relname, c.relkind, CASE WHEN c.relrowsecurity THEN ' row security' END) AS line
        FROM pg_catalog.pg_class AS c
        WHERE c.relnamespace = 'leafseal'::regnamespace AND c.relkind IN ('r', 'p', 'v', 'm', 'f', 'S')
    UNION ALL SELECT format('column %s.%s %s', c.relname, a.attname, format_type(a.atttypid, a.atttypmod))
            || CASE WHEN a.attnotnull THEN ' not null' ELSE '' END
            || coalesce((SELECT ' collate ' || collname FROM pg_catalog.pg_collation AS o WHERE o.oid = a.attcollation), '')
            || CASE WHEN a.attgenerated <> '' THEN ' generated' ELSE '' END
            || coalesce((SELECT ' default ' || pg_get_expr(d.adbin, d.adrelid) FROM pg_catalog.pg_attrdef AS d
                WHERE d.adrelid = a.attrelid AND d.adnum = a.attnum), '')
        FROM pg_catalog.pg_attribute AS a JOIN pg_catalog.pg_class AS c ON c.oid = a.attrelid
        WHERE c.relnamespace = 'leafseal'::regnamespace AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
            AND a.attnum > 0 AND NOT a.attisdropped
    UNION ALL SELECT format('constraint of %s: %s', c.relname, pg_get_constraintdef(r.oid))
        FROM pg_catalog.pg_constraint AS r JOIN pg_catalog.pg_class AS c ON c.oid = r.conrelid
        WHERE c.relnamespace = 'leafseal'::regnamespace AND r.contype IN ('c', 'f', 'p', 'u', 'x')
    UNION ALL SELECT format('trigger %s of %s', t.tgname, c.relname)
        FROM pg_catalog.pg_trigger AS t JOIN pg_catalog.pg_class AS c ON c.oid = t.tgrelid
        WHERE c.relnamespace = 'leafseal'::regnamespace AND NOT t.tgisinternal
    UNION ALL SELECT format('rewrite rule %s of %s', w.rulename, c.relname)
        FROM pg_catalog.pg_rewrite AS w JOIN pg_catalog.pg_class AS c ON c.oid = w.ev_class
        WHERE c.relnamespace = 'leafseal'::regnamespace
    UNION ALL SELECT format('policy %s of %s', p.polname, c.relname)
        FROM pg_catalog.pg_policy AS p JOIN pg_catalog.pg_class AS c ON c.oid = p.polrelid
        WHERE c.relnamespace = 'leafseal'::regnamespace
) AS described ORDER BY line COLLATE "C" LIMIT 10000
